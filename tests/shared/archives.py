"""Unpacks the archives of tests on every Python that is supported."""

import pathlib
import tarfile


def unpack(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacks a TAR file into `folder`, which is made if there is none."""
    # Debian 12 has Python 3.11.2; filters came with 3.11.4, and 3.12 warns where none is given.
    filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(path) as archive:
        archive.extractall(folder, **filters)
