"""What every experiment can set, with defaults. An override must have the type of its default.

get_config() gives numbers; by_rules() leaves some of them to the dataset's rows, for configs of any data.
"""

import dataclasses

from ml_collections import ConfigDict

from pipeline.data.images import augmentation

# The text that --help shows for keys that have no line here.
MEANINGS = {f"augmentation.{name}": meaning for name, meaning in augmentation.meanings().items()}


Config = ConfigDict  # what get_config() of a config file returns


def get_config() -> Config:
    config = Config()

    config.seed = 0  # decides the first weights, the order and the augmentation
    config.global_batch = 128  # examples a step, over all replicas; 0: follows from the number of rows

    # `name` is one of models/registry.py, module:function of your own, keras.applications:NAME,
    # keras_hub:NAME or a .keras file; the rest are that function's own keyword arguments, as in
    # --config.model.dropout=0.1 (docs/training.md).
    config.model = {"name": ""}

    config.init = {}
    # Source of the first weights: a --workdir, an export, a .keras or .weights.h5 file. Variables take them
    # by name and shape; the others begin with random values (docs/training.md).
    config.init.source = ""
    config.init.without = ()  # variables that take none of these weights, such as ('logits/*',)

    # More datasets of the same schema to train on: (directory, split, weight) each; see
    # pipeline/data/reading/plan.py.
    config.mixture = ()
    config.image_size = (0, 0)  # height, width; (0, 0): those of the schema, if all images have one size
    config.shuffle = "auto"  # how rows are shuffled: global; windows, for small records; auto chooses
    # With uint8 the model normalises; with bfloat16 or float32 the host does, and copies more bytes.
    config.image_dtype = "uint8"

    # Changes to training images; by default none. The keys are those of pipeline/data/images/augmentation.py.
    config.augmentation = dataclasses.asdict(augmentation.Augmentation())

    # `name` is empty for the task's own loss, or one of keras.losses, or module:function; the rest are its
    # arguments, as in --config.loss.name=Huber --config.loss.delta=2.
    config.loss = {"name": ""}

    config.train = {}
    config.train.split = "train"  # the rows to train on; also train[:90%], train[1000:], train+validation
    config.train.weight = 1.0  # the weight of --dataset in a mixture
    config.train.epochs = 10.0  # passes over the data; 0: follows from the number of rows
    config.train.steps = 0  # steps in all; 0: as many as the epochs take
    config.train.steps_per_loop = 32  # steps the device runs by itself; 32 gave 1.3x on a small model
    config.train.log_every_steps = 100  # steps between points of the curves
    config.train.checkpoint_every_steps = 1_000  # steps between checkpoints; every epoch ends with one, too
    config.train.checkpoints_kept = 3  # how many of the latest checkpoints stay
    # Also keeps the best checkpoint by this number, such as val_loss or val_auc; in the end this one is
    # evaluated and exported. auto takes val_loss, if there is a validation.
    config.train.keep_best = ""
    # Evaluations in a row without a better keep_best after which the run stops; 0: it never does, -1: follows
    # from the rules of defaults.
    config.train.patience = 0
    config.train.micro_batches = 1  # equal parts of a replica's batch, computed one after the other
    # What follows a loss that is not finite: stop, skip or roll_back (docs/training.md).
    config.train.on_bad_step = "stop"
    config.train.bad_steps_allowed = 10  # bad steps that a run may skip or roll back; one more stops it
    config.train.standardise_labels = True  # a regression learns labels of mean 0 and deviation 1
    config.train.label_smoothing = 0.0  # the part of each label that is spread over all classes, such as 0.1
    # Class weights of the loss: ('balanced',), or a number for each class of the schema.
    config.train.class_weights = ()
    config.train.example_weights = ""  # a numeric feature that weighs the losses; the model does not get it
    config.train.frozen = ()  # variables that are not trained, such as ('conv2d*', 'stem/*')
    # Layers that keep nothing of their insides for the backward pass, but compute it again: ('block_*',).
    config.train.remat = ()
    config.train.jit_compile = False  # compile with XLA, as a TPU always does

    config.optimizer = {}
    # adamw, adam, sgd, adagrad, muon, one of keras.optimizers, or module:function
    config.optimizer.name = "adamw"
    config.optimizer.learning_rate = 1e-3  # the largest learning rate, which the warm-up ends with
    # cosine or linear (to 0 at the end), rsqrt, constant, a class of keras.optimizers.schedules, or
    # module:function
    config.optimizer.schedule = "cosine"
    config.optimizer.warmup_part = 0.05  # the part of the run in which the learning rate rises
    config.optimizer.warmup_steps = 0  # the warm-up in steps, in place of warmup_part; 0: warmup_part counts
    config.optimizer.clip_norm = 0.0  # largest norm of all gradients together; 0: no limit
    config.optimizer.ema = 0.0  # decay of weight averages, which are evaluated and exported; 0: none
    config.optimizer.weight_decay = 1e-4  # weight decay of every optimizer except adam
    config.optimizer.not_decayed = ()  # more variables without weight decay: ('embeddings/*',)
    config.optimizer.momentum = 0.9  # momentum of sgd, and of others that have one
    config.optimizer.matrices = ("*kernel",)  # matrices that muon updates; adamw updates all else
    # Which embedding tables are updated only in the rows that a batch looks up: auto (the large ones), always
    # (all) or never (docs/training.md, "Large tables").
    config.optimizer.sparse = "auto"
    # Factors of the learning rate by variable: (('logits/*', 10.0),); the first pattern that matches counts.
    config.optimizer.rates = ()

    config.evaluation = {}
    # The split that is evaluated after epochs, if the dataset has it. With auto, a tenth of train replaces a
    # missing one.
    config.evaluation.split = "validation"
    config.evaluation.every_epochs = 1  # epochs between evaluations; 0: follows from the length of the run
    # The split that is evaluated at the end. Empty: test; if there is none, evaluation.split.
    config.evaluation.final_split = ""
    config.evaluation.global_batch = 512  # largest number of examples in an evaluation step
    # Metrics besides the task's, such as ('f1', 'precision@0.3'); see docs/training.md.
    config.evaluation.metrics = ()

    # Keras callbacks: docs/training.md lists those that survive a kill; or your own, as module:Class.
    # E.g. ({"class_name": "EarlyStopping", "config": {"monitor": "val_loss"}},)
    config.callbacks = ()

    # Services that follow the run: mlflow, wandb, hparams, openlineage, or your own, as module:Class. E.g.
    # ({"class_name": "mlflow", "config": {"tracking_uri": "http://localhost:5000"}},)
    config.observers = ()
    return config


def by_rules() -> Config:
    """Like get_config, but pipeline/training/experiment/defaults.py decides some values by the rows."""
    config = get_config()
    left = {"global_batch": 0, "train.epochs": 0.0, "train.keep_best": "auto", "train.patience": -1}
    left |= {"evaluation.split": "auto", "evaluation.every_epochs": 0}
    config.update_from_flattened_dict(left)
    return config
