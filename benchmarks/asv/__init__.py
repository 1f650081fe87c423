"""Benchmarks for asv: the entries of ``benchmarks/_entries.py`` over the history of the repository."""

import sys
from pathlib import Path

# at the end: this folder must not shadow the package of the same name
sys.path.append(str(Path(__file__).resolve().parents[1]))
