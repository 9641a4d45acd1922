"""This project's code as a wheel, for workers that cannot import it from the launcher's disk."""

import base64
import hashlib
import pathlib
import zipfile
from collections.abc import Mapping

_PACKAGES = ("beam_jobs", "models", "pipeline")
_NAME = "penstock"
_OLDEST = (1980, 1, 1, 0, 0, 0)  # of ZIP; a fixed time, so that the same code gives the same wheel


def build(directory: pathlib.Path) -> pathlib.Path:
    """Writes the wheel into `directory`, with no tool and no network, from a checkout or an installation.

    It declares no dependencies: the worker's image holds those (requirements-gcp.txt). Its version is the
    hash of the code, so that a worker never takes an older one for it.
    """
    code = _code()
    version = f"0+{_digest(code)}"
    information = f"{_NAME}-{version}.dist-info"
    described = {
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n".encode(),
        f"{information}/WHEEL": b"Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    files = {**code, **described}
    path = directory / f"{_NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(zipfile.ZipInfo(name, _OLDEST), content, zipfile.ZIP_DEFLATED)
        wheel.writestr(zipfile.ZipInfo(f"{information}/RECORD", _OLDEST), _record(files, information))
    return path


def _code() -> dict[str, bytes]:
    """Content of every module by its path in the wheel, in path order."""
    root = pathlib.Path(__file__).parents[2]
    paths = sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _digest(code: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in code.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _record(files: Mapping[str, bytes], information: str) -> str:
    lines = []
    for name, content in files.items():
        encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={encoded},{len(content)}")
    return "\n".join([*lines, f"{information}/RECORD,,", ""])
