"""Addresses in the package's metadata, all made from the one of the repository in pyproject.toml."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["Addresses", "absolute"]


def absolute(text: str, repository: str, version: str) -> str:
    """Return the README with absolute links: the page of the index has no files beside it."""
    tag = "main" if ".dev" in version else f"v{version}"
    raw = repository.replace("https://github.com", "https://raw.githubusercontent.com")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\g<1>{raw}/{tag}/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{repository}/blob/{tag}/", text)


class Addresses(MetadataHookInterface):
    """Fill in the README and, if the repository has a public address, the links of the project."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict) -> None:
        """Change the metadata in place."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        code = Path(self.root, "sklearn_calib", "_version.py").read_text(encoding="utf-8")
        repository = self.config["repository"]
        if repository:
            owner, name = repository.removeprefix("https://github.com/").split("/")
            metadata["urls"] = {
                "Documentation": f"https://{owner}.github.io/{name}/",
                "Repository": repository,
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
            }
            text = absolute(text, repository, re.search(r'__version__ = "(.+)"', code)[1])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
