"""What is compared, named alike on both sides. Standard library only: both environments read it."""

DRAWS = 10_000  # of every distribution
IMAGES = ((375, 500), (1200, 240), (64, 64))  # sizes that crops are drawn for
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
JITTER = {"brightness": 0.4, "contrast": 0.3, "saturation": 0.8, "hue": 0.2}
MOVE = {"shift": 0.1, "rotate_degrees": 15.0, "zoom": 0.2}
MOVED_SIZE = (100, 300)
CUTMIX_SIZE = (64, 48)

# RandAugment: name here → name in torchvision.
RAND_AUGMENT = {
    "identity": "Identity",
    "auto_contrast": "AutoContrast",
    "equalize": "Equalize",
    "rotate": "Rotate",
    "solarize": "Solarize",
    "saturation": "Color",
    "posterize": "Posterize",
    "contrast": "Contrast",
    "brightness": "Brightness",
    "sharpness": "Sharpness",
    "shear_x": "ShearX",
    "shear_y": "ShearY",
    "shift_x": "TranslateX",
    "shift_y": "TranslateY",
}
MOVES = (
    "rotate",
    "shear_x",
    "shear_y",
    "shift_x",
    "shift_y",
)  # Pillow's cut levels off: torchvision's tensors
BINS = (0, 9, 10, 15, 27, 30)  # of torchvision's 31 magnitudes, of which 30 is the 10 here
FACTORS = {
    "brightness": (0.0, 0.2, 0.6, 1.0, 1.4, 2.0),
    "contrast": (0.0, 0.2, 0.6, 1.0, 1.4, 2.0),
    "saturation": (0.0, 0.2, 0.6, 1.0, 1.4, 2.0),
    "hue": (-0.5, -0.21, -0.01, 0.0, 0.1, 0.5),
}
# Degrees to the left, scale, and pixels to the right and down.
AFFINES = ((0.0, 1.0, 0, 0), (15.0, 1.0, 0, 0), (-40.0, 0.8, 3, -2), (0.0, 1.3, 0, 5), (90.0, 1.0, 1, 0))
# Top, left, height and width, as fractions of what there is.
CROPS = ((0.0, 0.0, 1.0, 1.0), (0.1, 0.3, 0.5, 0.5), (0.4, 0.05, 0.35, 0.9), (0.7, 0.6, 0.1, 0.08))
CROPPED = (24, 20)  # what crops are resized to
PHOTO_CROPPED = (96, 80)


def size_of_crop(height: int) -> tuple[int, int]:
    return PHOTO_CROPPED if height > 100 else CROPPED


def box(crop: tuple[float, ...], height: int, width: int) -> tuple[int, int, int, int]:
    """A crop of an image of this size: top, left, height, width."""
    top, left = int(crop[0] * height), int(crop[1] * width)
    return top, left, max(1, int(crop[2] * height)), max(1, int(crop[3] * width))


def shrink_of(part: tuple[int, int, int, int], size: tuple[int, int]) -> int:
    """By what a JPEG's sides are divided as it is decoded: the largest of 1, 2, 4, 8 that leaves enough."""
    times = min(part[2] // size[0], part[3] // size[1])
    return max(shrink for shrink in (1, 2, 4, 8) if shrink <= max(times, 1))
