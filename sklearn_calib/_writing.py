"""Reading of documents, and atomic writing: a file has either its old or its new content, never a part."""

import errno
import os
import secrets
import stat
from pathlib import Path

# errors of folders that are not writable, and of mounted files
_FIXED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}

# Most bytes that are read of a pipe or device, which may have no end.
_LONGEST = 1 << 26


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, or of a pipe or device that ends."""
    with open(path, "rb") as file:
        endless = not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        content = file.read(_LONGEST + 1 if endless else -1)
    if endless and len(content) > _LONGEST:
        raise ValueError(f"{path} is a pipe or device with more than {_LONGEST} bytes. Name a file.")
    return content


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file atomically.

    An existing file keeps its mode, and links keep pointing to it. Pipes and devices are written to directly,
    and so is a file in a folder that is not writable. An OSError names ``path``.
    """
    try:
        _write(Path(path), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _write(path: Path, content: bytes) -> None:
    old = path.stat() if path.exists() else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        path.write_bytes(content)
        return
    if old is not None:
        # a file that is not writable must not be replaced
        path.open("r+b").close()
    # replace the target of a link, not the link
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else 0o600)
        with open(number, "wb") as file:
            file.write(content)
        if old is not None:
            part.chmod(stat.S_IMODE(old.st_mode))
        part.replace(target)
    except OSError as error:
        if old is None or error.errno not in _FIXED:
            raise
        target.write_bytes(content)
    finally:
        part.unlink(missing_ok=True)
