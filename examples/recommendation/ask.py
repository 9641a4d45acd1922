"""Asks the export what a reader of volume 4 may want."""

import tensorflow as tf

model = tf.saved_model.load("build/lender/1").signatures["raw"]
answer = model(reader=tf.constant(["r7"]), latest=tf.constant([["series B 4", "series B 3", ""]]))
print([name.decode() for name in answer["items"].numpy()[0]])
