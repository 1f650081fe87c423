"""Write the list of the versions of the site, and its first page: ``.ci/versions.py FOLDER ADDRESS``."""

import json
import re
import sys
from pathlib import Path


def order(name: str) -> tuple[tuple[int, ...], bool, str]:
    """Return what sorts versions: a release candidate comes before its release."""
    number, rest = re.fullmatch(r"(\d+(?:\.\d+)*)(.*)", name).groups()
    return tuple(map(int, number.split("."))), rest == "", rest


def write(folder: Path, address: str) -> None:
    """List the folders, dev first, then the newest; send readers to the newest release, or to dev."""
    found = [path.name for path in folder.iterdir() if re.match(r"\d", path.name)]
    releases = sorted(found, key=order, reverse=True)
    stable = next((name for name in releases if name.replace(".", "").isdigit()), (releases or ["dev"])[0])
    listed = [
        {"name": f"{name} (stable)" if name == stable else name, "version": name, "url": f"{address}/{name}/"}
        for name in ["dev", *releases]
    ]
    (folder / "versions.json").write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    page = f'<!DOCTYPE html>\n<meta http-equiv="refresh" content="0; url={stable}/">\n'
    page += f'<a href="{stable}/">{stable}</a>\n'
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / ".nojekyll").touch()


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2])
