"""What is written is what TensorFlow Serving's own package writes and reads."""

import numpy as np
import tensorflow as tf

from pipeline.data.dataset import tfrecord
from pipeline.exporting import messages, requests
from pipeline.exporting.requests import Call, Requests, fill_request

CALL = Call(
    signature="serving_default",
    inputs={"examples": np.array([b"first", b"\xff\x00"], object)},
    outputs={"value": np.array([1.5, -2.0], np.float32)},
)

# A PredictionLog as tensorflow-serving-api 2.21.0 serializes it, made on 2026-11-23 with protobuf 6.33:
#   log = prediction_log_pb2.PredictionLog(); spec = log.predict_log.request.model_spec
#   spec.name, spec.signature_name, spec.version.value = "people", "serving_default", 3
#   log.predict_log.request.inputs["examples"].CopyFrom(tf.make_tensor_proto([b"first", b"\xff\x00"]))
#   log.predict_log.response.outputs["value"].CopyFrom(tf.make_tensor_proto(np.float32([1.5, -2])))
#   log.SerializeToString(deterministic=True).hex()
BY_THEIR_PACKAGE = bytes.fromhex(
    "32610a400a1d0a0670656f706c65120208031a0f73657276696e675f64656661756c74121f0a086578616d70"
    "6c657312130807120412020802420566697273744202ff00121d0a1b0a0576616c7565121208011204120208"
    "0222080000c03f000000c0"
)


def test_our_bytes_are_theirs():
    log = messages.prediction_log()
    fill_request(log.predict_log.request, CALL, model="people", version=3)
    response = log.predict_log.response
    response.outputs["value"].ParseFromString(tf.make_tensor_proto(CALL.outputs["value"]).SerializeToString())
    assert log.SerializeToString(deterministic=True) == BY_THEIR_PACKAGE


def test_their_bytes_are_read():
    log = messages.prediction_log(BY_THEIR_PACKAGE)
    spec = log.predict_log.request.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("people", 3, "serving_default")
    assert list(tf.make_ndarray(log.predict_log.request.inputs["examples"])) == [b"first", b"\xff\x00"]
    assert tf.make_ndarray(log.predict_log.response.outputs["value"]).tolist() == [1.5, -2.0]


def test_a_warm_up_asks_with_the_few_rows_that_any_server_takes(tmp_path):
    calls = [
        Call(
            signature="serving_default",
            inputs={"examples": np.array([b"x"] * rows, object)},
            outputs={"value": np.zeros(rows, np.float32)},
        )
        for rows in (0, 1, 8, 9)
    ]
    requests.write_warmup(Requests(calls=calls, declared={}, tolerance=0.0, computed_by={}), tmp_path)
    path = tmp_path / "assets.extra" / "tf_serving_warmup_requests"
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    logs = [messages.prediction_log(record).predict_log for record in records]
    assert [len(tf.make_ndarray(log.request.inputs["examples"])) for log in logs] == [1, 8]
    assert not any(log.HasField("response") for log in logs)
    assert path.read_bytes() == tfrecord.frame(records)
