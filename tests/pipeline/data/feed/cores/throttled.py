"""A disk that gives few bytes a second to one process: Linux's control groups, which need root."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

_ONE = pathlib.Path("/sys/fs/cgroup/blkio")  # of the first version
_TWO = pathlib.Path("/sys/fs/cgroup")


@contextlib.contextmanager
def throttled(folder: pathlib.Path, *, bytes_per_s: int) -> Iterator[None]:
    """This process reads from the disk below `folder` at this pace, in the block.

    Raises:
      OSError: this system has no such control group, or does not let this user make one.
    """
    device = folder.stat().st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    root = _ONE if _ONE.is_dir() else _TWO
    group, before = root / f"penstock-{os.getpid()}", root / _own_group(root)
    group.mkdir()
    try:
        if root is _ONE:
            (group / "blkio.throttle.read_bps_device").write_text(f"{disk} {bytes_per_s}")
        else:
            (group / "io.max").write_text(f"{disk} rbps={bytes_per_s}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _own_group(root: pathlib.Path) -> str:
    """The path of this process's group below `root`."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == ("blkio" if root is _ONE else ""):
            return path.lstrip("/")
    raise OSError("this process is in no group for disks")
