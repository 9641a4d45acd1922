"""What torchvision makes of pictures, and draws; and what is compared, which both sides read.

  build/peers/bin/python -m tests.soak.augmentation_peer PICTURES.npz RESULT.npz

runs where torchvision is installed, without TensorFlow. Pictures are uint8 [height, width, 3], or the bytes
of a JPEG. Keys of the result are what is compared: pixels by (operation, setting, picture), joined with "/";
numbers that were drawn by their name.
"""

import contextlib
import io
import sys
from collections.abc import Iterator

import numpy as np
import PIL.Image

with contextlib.suppress(ImportError):  # not in the environment of this project
    import torch
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as F  # noqa: N812 - its usual name

    BILINEAR = InterpolationMode.BILINEAR

Named = Iterator[tuple[str, np.ndarray]]
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


def as_tensor(pixels: np.ndarray) -> "torch.Tensor":
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)


def as_array(image: object) -> np.ndarray:
    return image.permute(1, 2, 0).numpy() if isinstance(image, torch.Tensor) else np.asarray(image)


def rand_augmented(name: str, pixels: np.ndarray) -> Named:
    transform = v2.RandAugment(interpolation=BILINEAR)
    operation = RAND_AUGMENT[name]
    magnitudes, signed = transform._AUGMENTATION_SPACE[operation]
    image = as_tensor(pixels) if name in MOVES else PIL.Image.fromarray(pixels)
    for bin_ in BINS:
        found = magnitudes(31, *pixels.shape[:2])
        for sign in (-1, 1) if signed else (1,):
            magnitude = 0.0 if found is None else sign * float(found[bin_])
            changed = transform._apply_image_or_video_transform(
                image,
                operation,
                magnitude,
                interpolation=BILINEAR,
                fill={torch.Tensor: None, PIL.Image.Image: None},
            )
            yield f"RandAugment {name}/{sign * bin_}", as_array(changed)


def recoloured(pixels: np.ndarray) -> Named:
    for name, factors in FACTORS.items():
        image = as_tensor(pixels) if name == "hue" else PIL.Image.fromarray(pixels)
        for factor in factors:
            yield f"{name}/{factor}", as_array(getattr(F, f"adjust_{name}")(image, factor))


def moved(pixels: np.ndarray) -> Named:
    yield "flip/", as_array(F.horizontal_flip(as_tensor(pixels)))
    for degrees, scale, right, down in AFFINES:
        changed = F.affine(
            as_tensor(pixels), -degrees, [right, down], scale, [0.0, 0.0], interpolation=BILINEAR
        )
        yield f"move/{degrees} {scale} {right} {down}", as_array(changed)


def resized(pixels: np.ndarray) -> Named:
    height, width = pixels.shape[:2]
    size = size_of_crop(height)
    yield "resize/", as_array(F.resize(as_tensor(pixels), size, antialias=True))
    for number, crop in enumerate(CROPS):
        part = box(crop, height, width)
        changed = F.resized_crop(as_tensor(pixels), *part, size, antialias=shrinks(part, size))
        yield f"crop/{number}", as_array(changed)
        smooth = F.resized_crop(as_tensor(pixels), *part, size, antialias=True)
        yield f"antialiased crop/{number}", as_array(smooth)


def shrinks(part: tuple[int, int, int, int], size: tuple[int, int]) -> bool:
    """By more than two: from there on every pixel counts only if it is antialiased."""
    return part[2] > 2 * size[0] or part[3] > 2 * size[1]


def resized_jpeg(data: bytes) -> Named:
    """Decoded by Pillow at a half, quarter or eighth where that leaves enough."""
    width, height = PIL.Image.open(io.BytesIO(data)).size
    size = size_of_crop(height)
    for number, crop in enumerate(CROPS):
        part = box(crop, height, width)
        shrink = shrink_of(part, size)
        image = PIL.Image.open(io.BytesIO(data))
        image.draft("RGB", (width // shrink, height // shrink))
        part = tuple(side // shrink for side in part)
        pixels = as_tensor(np.asarray(image))
        yield (
            f"crop of a JPEG/{number}",
            as_array(F.resized_crop(pixels, *part, size, antialias=shrinks(part, size))),
        )


def drawn() -> Named:
    torch.manual_seed(0)
    for size in IMAGES:
        crops = v2.RandomResizedCrop(1, scale=AREA, ratio=ASPECT)
        image = torch.zeros(3, *size, dtype=torch.uint8)
        boxes = [crops.make_params([image]) for _ in range(DRAWS)]
        yield f"crop {size}", np.array([[b["top"], b["left"], b["height"], b["width"]] for b in boxes])
    jitter = v2.ColorJitter(**JITTER)
    for name in JITTER:
        yield name, np.array([jitter.make_params([])[f"{name}_factor"] for _ in range(DRAWS)])
    shift, zoom = MOVE["shift"], MOVE["zoom"]
    affine = v2.RandomAffine(MOVE["rotate_degrees"], (shift, shift), (1 - zoom, 1 + zoom))
    image = torch.zeros(3, *MOVED_SIZE, dtype=torch.uint8)
    moves = [affine.make_params([image]) for _ in range(DRAWS)]
    yield "move", np.array([[m["angle"], m["scale"], *m["translate"]] for m in moves])
    cutmix, image = v2.CutMix(alpha=1.0), torch.zeros(3, *CUTMIX_SIZE)
    yield (
        "share of cutmix",
        np.array([cutmix.make_params([image])["lam_adjusted"] for _ in range(DRAWS)]),
    )
    mixup = v2.MixUp(alpha=0.4)
    yield "share of mixup", np.array([mixup.make_params([image])["lam"] for _ in range(DRAWS)])


def main(source: str, result: str) -> None:
    found = {}
    for name, picture in np.load(source).items():
        if picture.ndim == 1:
            changes = [resized_jpeg(picture.tobytes())]
        else:
            of_list = [rand_augmented(operation, picture) for operation in RAND_AUGMENT]
            changes = [*of_list, recoloured(picture), moved(picture), resized(picture)]
        found |= {f"{key}/{name}": value for change in changes for key, value in change}
    found |= {f"drawn/{name}": value for name, value in drawn()}
    np.savez(result, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
