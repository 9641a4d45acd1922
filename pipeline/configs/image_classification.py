r"""Any folder of images with one folder for each class; the data sets the sizes.

  python -m pipeline.train --config=pipeline/configs/image_classification.py --dataset=DATASET \
      --workdir=WORKDIR

The network follows from the images' size; batch, length and evaluations from their number (docs/training.md,
"Defaults by rules"). Where the images differ in size, say what to resize them to: --config.image_size=224,224

Images are shifted a little, and not mirrored: a digit, a letter or a sign means something else then, and no
file says so. For photographs add --config.augmentation.flip=true --config.augmentation.crop_area=0.25,1.0

Hardware: a GPU or TPU for photographs; 2 CPU cores are enough for images of 28x28 pixels.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.by_rules()
    config.model = {
        "name": "resnet",
        "widths": (),  # by the images' size, as the next two
        "blocks_per_stage": 0,
        "stem_stride": 0,
        "dropout": 0.0,
    }
    config.augmentation.shift = 0.1
    config.optimizer.learning_rate = 3e-3
    config.optimizer.weight_decay = 1e-2
    return config
