"""What every experiment can set, with defaults. Their types are the types that overrides must have."""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    config = ConfigDict()

    config.seed = 0  # of weights, order and augmentation
    config.global_batch = 128  # examples a step, over all replicas

    # `name` is one of models/registry.py; the rest are that function's own keyword arguments.
    config.model = ConfigDict({"name": ""})

    # Input
    # More datasets of the same schema to train on: (directory, split, weight) each; see data/mixture.py.
    config.mixture = ()
    config.image_size = (0, 0)  # height, width; (0, 0): the schema's, where all images have one size
    config.shuffle = "auto"  # global, windows, or auto: see pipeline/data/reader.py
    config.image_dtype = "uint8"  # the model normalises; bfloat16, float32: the host does, more bytes to copy

    # What training images go through, in this order; as it is here: nothing. See pipeline/data/augment.py.
    config.augmentation = ConfigDict()
    config.augmentation.crop_area = (1.0, 1.0)  # of a random part, resized; photographs: (0.08, 1.0)
    config.augmentation.crop_aspect = (3 / 4, 4 / 3)  # its width / height
    config.augmentation.flip = False
    config.augmentation.shift = 0.0  # of the side
    config.augmentation.rotate_degrees = 0.0
    config.augmentation.zoom = 0.0
    config.augmentation.brightness = 0.0
    config.augmentation.contrast = 0.0
    config.augmentation.saturation = 0.0
    config.augmentation.hue = 0.0  # turns of the colour circle
    config.augmentation.rand_augment = 0  # operations
    config.augmentation.rand_augment_magnitude = 9.0  # of 10

    config.train = ConfigDict()
    config.train.split = "train"  # or a part: train[:90%], train[1000:], train+validation
    config.train.weight = 1.0  # of --dataset in a mixture
    config.train.epochs = 10.0
    config.train.steps = 0  # 0: as many as the epochs take
    config.train.steps_per_loop = 32  # steps the device runs by itself; 32 gave 1.3x on a small model
    config.train.log_every_steps = 100
    config.train.checkpoint_every_steps = 1_000  # also at the end of every epoch
    config.train.checkpoints_kept = 3
    config.train.jit_compile = False  # XLA; a TPU always does

    config.optimizer = ConfigDict()
    config.optimizer.name = "adamw"  # adamw, adam or sgd
    config.optimizer.learning_rate = 1e-3
    config.optimizer.schedule = "cosine"  # cosine (to 0 at the last step) or constant
    config.optimizer.warmup_steps = 100
    config.optimizer.weight_decay = 1e-4  # adamw and sgd
    config.optimizer.momentum = 0.9  # sgd

    config.evaluation = ConfigDict()
    config.evaluation.split = "validation"  # evaluated after epochs; skipped where there is none
    config.evaluation.every_epochs = 1
    config.evaluation.final_split = ""  # evaluated at the end; empty: test, else validation
    config.evaluation.global_batch = 512

    # Keras callbacks, e.g. ({"class_name": "EarlyStopping", "config": {"monitor": "val_loss"}},)
    config.callbacks = ()
    return config
