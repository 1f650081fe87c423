"""Scripts beside the package, in folders that are no packages."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def script(path):
    """Import a script by its path in the repository."""
    loader = SourceFileLoader(f"script_{Path(path).stem}", str(ROOT / path))
    module = sys.modules[loader.name] = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
