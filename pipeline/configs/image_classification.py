r"""Any folder of images with one folder for each class; the data sets the sizes.

  python -m pipeline.train --config=pipeline/configs/image_classification.py --dataset=DATASET \
      --workdir=WORKDIR

Batch and evaluations follow from the number of images (docs/training.md, "Defaults by rules").
Where the images differ in size, say what to resize them to: --config.image_size=224,224

Hardware: a GPU or TPU for photographs; 2 CPU cores are enough for images of 28x28 pixels.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.by_rules()
    config.model = {
        "name": "resnet",
        "widths": (32, 64, 128, 256),
        "blocks_per_stage": 2,
        "stem_stride": 0,
        "dropout": 0.0,
    }
    config.augmentation.shift = 0.1
    config.train.epochs = 30.0
    config.optimizer.learning_rate = 3e-3
    config.optimizer.weight_decay = 1e-2
    return config
