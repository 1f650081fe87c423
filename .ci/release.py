"""Set the version: ``python .ci/release.py 0.1.0rc1``. Without a version, print the present one."""

import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORM = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+|\.dev\d+)?"
VERSION = re.compile(rf'^__version__ = "({FORM})"$', flags=re.MULTILINE)


def replaced(pattern: str, new: str, text: str, where: str) -> str:
    """Return a text in which one line is replaced."""
    text, number = re.subn(pattern, new, text, flags=re.MULTILINE)
    if number != 1:
        raise SystemExit(f"{where}: {number} lines match {pattern!r}, 1 expected")
    return text


def release(root: Path, version: str, day: str) -> None:
    """Write a version to the package, CITATION.cff, the recipe and, for a release, the changelog."""
    if not re.fullmatch(FORM, version):
        raise SystemExit(f"{version!r} is not a version such as 0.1.0, 0.1.0rc1 or 0.2.0.dev0")
    changes = {"sklearn_calib/_version.py": (VERSION.pattern, f'__version__ = "{version}"')}
    changes["CITATION.cff"] = (
        r"^version: .*(?:\ndate-released: .*)?$",
        f"version: {version}\ndate-released: {day}",
    )
    changes["recipe/recipe.yaml"] = (r'^  version: "\d.*"$', f'  version: "{version}"')
    if ".dev" in version:
        changes["CITATION.cff"] = (changes["CITATION.cff"][0], f"version: {version}")
    else:
        changes["CHANGELOG.md"] = (r"^## \[Unreleased\]$", f"## [Unreleased]\n\n## [{version}] - {day}")
    texts = {
        name: replaced(pattern, new, (root / name).read_text(encoding="utf-8"), name)
        for name, (pattern, new) in changes.items()
    }
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        release(ROOT, sys.argv[1], date.today().isoformat())
    print(VERSION.search((ROOT / "sklearn_calib" / "_version.py").read_text(encoding="utf-8"))[1])
