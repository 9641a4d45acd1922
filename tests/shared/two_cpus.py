"""Splits this process's CPU in two, so that a strategy has two real replicas. Import it to have it done."""

import tensorflow as tf

_CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(_CPU, [tf.config.LogicalDeviceConfiguration()] * 2)
