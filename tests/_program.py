"""The command line, as its console script runs it."""

from sklearn_calib.__main__ import main as program

__all__ = ["main"]


def main(arguments):
    """Run the program with these arguments and return its exit code."""
    return program([str(argument) for argument in arguments])
