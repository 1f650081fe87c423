"""The version of the package, said here and nowhere else in the code."""

__version__ = "0.1.0.dev0"
