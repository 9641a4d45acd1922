"""TensorFlow Serving's gRPC API: PredictionService.Predict."""

from collections.abc import Mapping

import grpc
import numpy as np

from pipeline.release.infra import messages
from pipeline.release.infra.requests import Call, arrays, fill_request
from pipeline.release.infra.servers.client import AbsentError, RefusedError

_ABSENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,  # it loads, or unloads
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
_LONGEST_ERROR = 300  # characters
_ANY_SIZE = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class GrpcClient:
    """Asks a server at `host:port`, without encryption, for one version of a model."""

    def __init__(self, *, host: str, port: int, model: str, version: int) -> None:
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=_ANY_SIZE)
        self._model, self._version = model, version
        self._predict = self._channel.unary_unary(
            messages.PREDICT,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=messages.predict_response,
        )

    def predict(self, call: Call, *, seconds: float) -> Mapping[str, np.ndarray]:
        """See Client."""
        request = messages.predict_request()
        fill_request(request, call, model=self._model, version=self._version)
        try:
            response = self._predict(request, timeout=seconds)
        except grpc.RpcError as error:
            kind = AbsentError if error.code() in _ABSENT else RefusedError
            told = " ".join(str(error.details()).split())[:_LONGEST_ERROR]
            raise kind(f"gRPC status {error.code().name}: {told}") from None
        return arrays(response.outputs)

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()
