"""Check what is inside a wheel and a source archive: ``python .ci/contents.py WHEEL SDIST``."""

import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

NEEDED = ["README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "CONTRIBUTING.md"]
NEEDED += ["pyproject.toml", "conftest.py", "hatch_build.py"]
FOLDERS = ["sklearn_calib", "tests", "docs", "examples", "benchmarks", ".ci"]
DATA = "sklearn_calib/datasets/data/"
LICENSES = f"licenses/{DATA}LICENSES.md"
# nothing else may be shipped: a file of data stands in LICENSES.md
CODE = (".py", "py.typed")
LARGEST_WHEEL = 700_000
TEMPLATES = "sklearn_calib/report/templates/"


def wheel_faults(names: list[str], licenses: str, metadata: str) -> list[str]:
    """Return what is wrong with the files of a wheel, and with what it says of itself."""
    inside = [name for name in names if ".dist-info/" not in name]
    faults = [f"{name} does not belong into the wheel" for name in inside if not allowed(name, licenses)]
    wanted = ["sklearn_calib/py.typed", "sklearn_calib/__main__.py", f"{TEMPLATES}page.html"]
    faults += [f"the wheel lacks {name}" for name in wanted if name not in inside]
    for wanted_end in ("licenses/LICENSE", LICENSES):
        if not any(name.endswith(f".dist-info/{wanted_end}") for name in names):
            faults.append(f"the wheel lacks {wanted_end}")
    said = metadata.splitlines()
    wanted = ["License-Expression: BSD-3-Clause", "License-File: LICENSE", f"License-File: {DATA}LICENSES.md"]
    faults += [f"the metadata of the wheel lack {line!r}" for line in wanted if line not in said]
    return faults


def allowed(name: str, licenses: str) -> bool:
    """Tell whether a file is code of the package, or data whose license is known."""
    if not name.startswith("sklearn_calib/") or "test" in Path(name).parts:
        return False
    if name.startswith(DATA):
        return f"- {name.removeprefix(DATA)}: " in licenses
    return name.startswith(TEMPLATES) or name.endswith(CODE)


def sdist_faults(names: list[str]) -> list[str]:
    """Return what is wrong with the files of a source archive, named from its own folder."""
    faults = [f"the source archive lacks {name}" for name in NEEDED if name not in names]
    faults += [
        f"the source archive lacks {folder}/"
        for folder in FOLDERS
        if not any(name.startswith(f"{folder}/") for name in names)
    ]
    built = ("__pycache__", "_build", "auto_examples", "generated", ".venv", "_cache")
    faults += [
        f"{name} does not belong into the source archive"
        for name in names
        if any(part.endswith(built) for part in Path(name).parts)
    ]
    return faults


def main() -> int:
    """Check the two files; print what is wrong, and how much is inside."""
    wheel, sdist = sys.argv[1:]
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.namelist()
        sizes: Counter[str] = Counter()
        for member in archive.infolist():
            sizes["/".join(Path(member.filename).parts[:2])] += member.compress_size
        (head,) = (name for name in packed if name.endswith(".dist-info/METADATA"))
        texts = (archive.read(name).decode() for name in (head.replace("METADATA", LICENSES), head))
        faults = wheel_faults(packed, *texts)
    with tarfile.open(sdist) as tar:
        names = [member.name.split("/", 1)[1] for member in tar.getmembers() if member.isfile()]
    faults += sdist_faults(names)
    if Path(wheel).stat().st_size > LARGEST_WHEEL:
        faults.append(f"the wheel has more than {LARGEST_WHEEL} bytes")
    for fault in faults:
        print(fault, file=sys.stderr)
    for path, count in ((wheel, len(packed)), (sdist, len(names))):
        print(f"{Path(path).name}: {count} files, {Path(path).stat().st_size / 1e6:.2f} MB")
    print("inside the wheel, in kB:")
    for name, size in sizes.most_common():
        print(f"  {name} {size / 1000:.1f}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
