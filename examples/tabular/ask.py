"""Asks the export for the cost of two deliveries; needs TensorFlow alone."""

import tensorflow as tf

model = tf.saved_model.load("build/deliverer/1").signatures["raw"]
answer = model(
    kilos=tf.constant([10.0, float("nan")]),  # NaN: not known
    kilometres=tf.constant([500, 20], tf.int64),
    express=tf.constant(["no", "yes"]),
)
print(answer["value"].numpy().round(2).tolist())
