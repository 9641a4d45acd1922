"""Which file stands at a path: what changes when it is written to, replaced or deleted.

Standard library only.
"""

import os
from typing import NamedTuple

# A file that changed so shortly before it was looked at may change again without another time.
_SETTLED_NS = 2_000_000_000


class FileState(NamedTuple):
    """Equal as long as nobody changes the file, or puts another in its place."""

    size: int  # bytes
    modified_ns: int  # since 1970
    changed_ns: int  # since 1970: also where the time above was set back
    inode: int
    device: int

    def is_settled(self, now_ns: int) -> bool:
        """Whether every later change would show: not where the file system's clock stands still between."""
        return max(self.modified_ns, self.changed_ns) < now_ns - _SETTLED_NS


def of(path: str | os.PathLike) -> FileState:
    """The file at a path; raises OSError where there is none."""
    return told(os.stat(path))  # noqa: PTH116 - pathlib takes longer, and a dataset may have 100,000 files


def told(status: os.stat_result) -> FileState:
    """What the system tells of a file, or of one that is open."""
    return FileState(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
