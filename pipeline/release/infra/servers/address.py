"""Where a model server is: the value of `--serving_url`."""

import urllib.parse

from pipeline.data.errors import InputError
from pipeline.release.infra.servers.client import Client

FLAG = "--serving_url"
_PORTS = {"http": 8501, "https": 443, "grpc": 8500}  # those of TensorFlow Serving, and of HTTPS


def check(url: str) -> None:
    """Raises InputError where the address is none."""
    _parts(url)


def client(url: str, *, model: str, version: int) -> Client:
    """A client of the server at `http://host:port`, `https://host:port` or `grpc://host:port`."""
    scheme, host, port = _parts(url)
    if scheme == "grpc":
        # Imported here: whoever asks over REST needs no gRPC.
        from pipeline.release.infra.servers.grpc_client import GrpcClient

        return GrpcClient(host=host, port=port, model=model, version=version)
    from pipeline.release.infra.servers.rest import RestClient

    return RestClient(host=host, port=port, secure=scheme == "https", model=model, version=version)


def _parts(url: str) -> tuple[str, str, int]:
    try:
        parts = urllib.parse.urlsplit(url)
        found = parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # a port that is none
        found, parts = ("", "", None), None
    if found[0] not in _PORTS or not found[1] or (parts and (parts.path.strip("/") or parts.query)):
        raise InputError(
            FLAG,
            received=repr(url),
            expected="http://HOST:PORT of TensorFlow Serving's REST API, or grpc://HOST:PORT",
            action="Leave out what stands behind the port: model and version are added.",
        )
    return found
