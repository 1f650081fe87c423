"""Options of the command line that the scripts have in common."""

import argparse
from typing import Any


def parser_of(text: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser with --smoke and an option for each default; a list is an option of several values."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a quick check")
    for name, value in defaults.items():
        several = isinstance(value, list)
        kind = type(value[0] if several else value)
        parser.add_argument(f"--{name}", type=kind, nargs="+" if several else None, default=value)
    return parser


def options_of(text: str | None, **defaults: Any) -> argparse.Namespace:
    """Return the options of the command line."""
    return parser_of(text, **defaults).parse_args()
