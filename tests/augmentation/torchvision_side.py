"""What torchvision makes of pictures, and draws; runs where it is installed, without TensorFlow.

  build/peers/bin/python -m tests.augmentation.torchvision_side PICTURES.npz RESULT.npz

Pictures are uint8 [height, width, 3], or the bytes of a JPEG. Keys of the result are what is compared: pixels
by (operation, setting, picture), joined with "/"; numbers that were drawn by their name.
"""

import io
import sys
from collections.abc import Iterator

import numpy as np
import PIL.Image
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F  # noqa: N812 - its usual name

from tests.augmentation import cases

Named = Iterator[tuple[str, np.ndarray]]
BILINEAR = InterpolationMode.BILINEAR


def as_tensor(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)


def as_array(image: torch.Tensor | PIL.Image.Image) -> np.ndarray:
    return image.permute(1, 2, 0).numpy() if isinstance(image, torch.Tensor) else np.asarray(image)


def rand_augmented(name: str, pixels: np.ndarray) -> Named:
    transform = v2.RandAugment(interpolation=BILINEAR)
    operation = cases.RAND_AUGMENT[name]
    magnitudes, signed = transform._AUGMENTATION_SPACE[operation]
    image = as_tensor(pixels) if name in cases.MOVES else PIL.Image.fromarray(pixels)
    for bin_ in cases.BINS:
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
    for name, factors in cases.FACTORS.items():
        image = as_tensor(pixels) if name == "hue" else PIL.Image.fromarray(pixels)
        for factor in factors:
            yield f"{name}/{factor}", as_array(getattr(F, f"adjust_{name}")(image, factor))


def moved(pixels: np.ndarray) -> Named:
    yield "flip/", as_array(F.horizontal_flip(as_tensor(pixels)))
    for degrees, scale, right, down in cases.AFFINES:
        changed = F.affine(
            as_tensor(pixels), -degrees, [right, down], scale, [0.0, 0.0], interpolation=BILINEAR
        )
        yield f"move/{degrees} {scale} {right} {down}", as_array(changed)


def resized(pixels: np.ndarray) -> Named:
    height, width = pixels.shape[:2]
    size = cases.size_of_crop(height)
    yield "resize/", as_array(F.resize(as_tensor(pixels), size, antialias=True))
    for number, crop in enumerate(cases.CROPS):
        part = cases.box(crop, height, width)
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
    size = cases.size_of_crop(height)
    for number, crop in enumerate(cases.CROPS):
        part = cases.box(crop, height, width)
        shrink = cases.shrink_of(part, size)
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
    for size in cases.IMAGES:
        crops = v2.RandomResizedCrop(1, scale=cases.AREA, ratio=cases.ASPECT)
        image = torch.zeros(3, *size, dtype=torch.uint8)
        boxes = [crops.make_params([image]) for _ in range(cases.DRAWS)]
        yield f"crop {size}", np.array([[b["top"], b["left"], b["height"], b["width"]] for b in boxes])
    jitter = v2.ColorJitter(**cases.JITTER)
    for name in cases.JITTER:
        yield name, np.array([jitter.make_params([])[f"{name}_factor"] for _ in range(cases.DRAWS)])
    shift, zoom = cases.MOVE["shift"], cases.MOVE["zoom"]
    affine = v2.RandomAffine(cases.MOVE["rotate_degrees"], (shift, shift), (1 - zoom, 1 + zoom))
    image = torch.zeros(3, *cases.MOVED_SIZE, dtype=torch.uint8)
    moves = [affine.make_params([image]) for _ in range(cases.DRAWS)]
    yield "move", np.array([[m["angle"], m["scale"], *m["translate"]] for m in moves])
    cutmix, image = v2.CutMix(alpha=1.0), torch.zeros(3, *cases.CUTMIX_SIZE)
    yield (
        "share of cutmix",
        np.array([cutmix.make_params([image])["lam_adjusted"] for _ in range(cases.DRAWS)]),
    )
    mixup = v2.MixUp(alpha=0.4)
    yield "share of mixup", np.array([mixup.make_params([image])["lam"] for _ in range(cases.DRAWS)])


def main(source: str, result: str) -> None:
    found = {}
    for name, picture in np.load(source).items():
        is_jpeg = picture.ndim == 1
        if is_jpeg:
            changes = [resized_jpeg(picture.tobytes())]
        else:
            of_list = [rand_augmented(operation, picture) for operation in cases.RAND_AUGMENT]
            changes = [*of_list, recoloured(picture), moved(picture), resized(picture)]
        found |= {f"{key}/{name}": value for change in changes for key, value in change}
    found |= {f"drawn/{name}": value for name, value in drawn()}
    np.savez(result, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
