"""Writing a file as a whole: under its name is the old content or the new, never half of one."""

import errno
import os
import secrets
import stat
from pathlib import Path

__all__ = ["write_whole"]

# what a folder that takes no new files, or a file that is mounted, answers
_FIXED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file, which appears under its name when it is complete.

    A file that exists keeps its mode, and a link keeps pointing to it. Pipes and devices are written to as
    they are, and so is a file in a folder that takes no new ones. An OSError names ``path``.
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
        # what must not be written to must not be replaced either
        path.open("r+b").close()
    # what a link points to is replaced, not the link
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
