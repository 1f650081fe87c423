"""Run the code of the guide, and compare its output with the page.

The ``python`` blocks of a page are executed in order, in one namespace. If the next block is ``text``, it is
the expected output: the same words, and numbers that differ by at most one in their last decimal (integers
must be equal). A line of three dots stands for any lines.

``python docs/run_blocks.py docs/start.md`` compares. With ``--write`` the output is written to the page,
except for blocks with dots.
"""

import argparse
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```[ ]*$", flags=re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
DOTS = "..."


@dataclass(frozen=True)
class Block:
    """Code of a page, with the line it begins on, and the output that follows it, if any."""

    line: int
    code: str
    output: str | None
    output_span: tuple[int, int] | None


def pages() -> list[Path]:
    """Return the pages of the guide that hold code."""
    folders = [DOCS, *(DOCS / name for name in ("methods", "migration", "paths"))]
    found = [page for folder in folders for page in folder.glob("*.md")]
    return sorted(page for page in found if blocks(page.read_text(encoding="utf-8")))


def blocks(text: str) -> list[Block]:
    """Return the blocks of code in a page."""
    fences = list(FENCE.finditer(text))
    found = []
    for fence, after in zip(fences, [*fences[1:], None], strict=False):
        if fence[1] != "python":
            continue
        has_output = after is not None and after[1] == "text"
        found.append(
            Block(
                line=text.count("\n", 0, fence.start(2)) + 1,
                code=fence[2],
                output=after[2] if has_output else None,
                output_span=after.span(2) if has_output else None,
            )
        )
    return found


def run(page: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in order, and yield each with what it printed."""
    namespace: dict[str, Any] = {"__name__": "guide"}
    for block in blocks(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        # tracebacks then name the line of the page
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        yield block, printed.getvalue()


def agree(expected: str, printed: str) -> bool:
    """Tell whether the output of a page is what was printed."""
    wanted = [line.strip() for line in expected.strip().splitlines()]
    got = [line.strip() for line in printed.strip().splitlines()]
    return _agree(wanted, got)


def _agree(wanted: list[str], got: list[str]) -> bool:
    for at, line in enumerate(wanted):
        if line == DOTS:
            starts = range(at, len(got) + 1)
            return any(_agree(wanted[at + 1 :], got[start:]) for start in starts)
        if at == len(got) or not _same_line(line, got[at]):
            return False
    return len(got) == len(wanted)


def _same_line(wanted: str, got: str) -> bool:
    if NUMBER.sub("#", wanted).split() != NUMBER.sub("#", got).split():
        return False
    pairs = zip(NUMBER.findall(wanted), NUMBER.findall(got), strict=True)
    return all(_same_number(a, b) for a, b in pairs)


def _same_number(wanted: str, got: str) -> bool:
    decimals = len(wanted.partition(".")[2].partition("e")[0])
    # whole numbers are counts: they must be right; the last of many digits depend on the machine
    slack = max(1.01 * 10.0**-decimals, 1e-12 * abs(float(wanted))) if decimals else 0.0
    return abs(float(wanted) - float(got)) <= slack


def main() -> int:
    """Compare the pages named on the command line, or write them."""
    parser = argparse.ArgumentParser(
        description="Run the code of the guide and compare its output."
    )
    parser.add_argument("pages", nargs="*", type=Path, default=pages())
    parser.add_argument("--write", action="store_true", help="put what was printed into the pages")
    options = parser.parse_args()
    wrong = 0
    for page in [page.resolve() for page in options.pages]:
        text = page.read_text(encoding="utf-8")
        shift = 0
        # some pages write files
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for block, printed in run(page):
                if (
                    block.output is None
                    or block.output_span is None
                    or agree(block.output, printed)
                ):
                    continue
                if options.write and DOTS not in block.output.splitlines():
                    start, end = (place + shift for place in block.output_span)
                    text = text[:start] + printed.rstrip("\n") + "\n" + text[end:]
                    shift += len(printed.rstrip("\n")) + 1 - (end - start)
                else:
                    wrong += 1
                    print(f"{page}, line {block.line}, says\n{block.output}\nand prints\n{printed}")
        page.write_text(text, encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
