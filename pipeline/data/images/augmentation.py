"""The changes to training images: each setting with its default, meaning and range, in this one place.

Standard library only: configs take their defaults from here before TensorFlow is imported.
"""

import dataclasses

from pipeline.base.errors import InputError

# The version of the pixels that these settings give. Increase it with every change: a run continues only with
# the pixels with which it began.
VERSION = 1

LARGEST_MAGNITUDE = 10.0  # limit of RandAugment's magnitude
_HOW = ("crop_area", "crop_aspect", "rand_augment_magnitude")  # settings that change nothing unless others do


def _setting(default: object, meaning: str, *, limit: float | None = None) -> dataclasses.Field:
    """A field; a number that has a limit is in [0, limit]."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "limit": limit})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation:
    """The limits of changes to an image, in this order; by default there are none.

    Raises:
      InputError: a value is out of its range.
    """

    crop_area: tuple[float, float] = _setting(
        (1.0, 1.0),
        "least and greatest part of the area that a random crop shows; for photographs 0.08,1.0",
    )
    crop_aspect: tuple[float, float] = _setting((3 / 4, 4 / 3), "least and greatest width / height of a crop")
    flip: bool = _setting(False, "mirror left to right, half of the time")
    shift: float = _setting(0.0, "largest shift, as a fraction of the side", limit=1.0)
    rotate_degrees: float = _setting(0.0, "largest turn either way", limit=180.0)
    zoom: float = _setting(0.0, "largest change of scale: 0.1 means 0.9 to 1.1", limit=0.9)
    brightness: float = _setting(0.0, "largest change: 0.4 means a factor of 0.6 to 1.4", limit=1.0)
    contrast: float = _setting(0.0, "largest change, as for brightness", limit=1.0)
    saturation: float = _setting(0.0, "largest change, as for brightness", limit=1.0)
    hue: float = _setting(0.0, "largest turn of the colour circle either way; 0.5 is half of it", limit=0.5)
    rand_augment: int = _setting(
        0, "how many operations of RandAugment an image gets, one after another", limit=10
    )
    rand_augment_magnitude: float = _setting(
        9.0, f"strength of these operations, up to {LARGEST_MAGNITUDE:g}", limit=LARGEST_MAGNITUDE
    )
    mixup: float = _setting(
        0.0, "α of mixup, which blends neighbours of a batch in pairs: 0.2 a little, 1 evenly", limit=10.0
    )
    cutmix: float = _setting(
        0.0,
        "α of cutmix, which puts a box of one neighbour into the other: usually 1; with mixup, each gets "
        "half of the pairs",
        limit=10.0,
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, limit = getattr(self, field.name), field.metadata["limit"]
            _require(limit is None or 0 <= value <= limit, field.name, value, f"0 to {limit or 0:g}")
        least, most = self.crop_area
        _require(0 < least <= most <= 1, "crop_area", self.crop_area, "two rising fractions, each to 1")
        least, most = self.crop_aspect
        _require(0 < least <= most, "crop_aspect", self.crop_aspect, "two rising numbers above 0")

    @property
    def version(self) -> int:
        """The version of the pixels, which binds a run like the settings do; 0 where images are not
        changed.
        """
        changes = (getattr(self, name) for name in meanings() if name not in _HOW)
        return VERSION if self.crops or any(changes) else 0

    @property
    def changed(self) -> dict[str, object]:
        """The settings that differ from their default, by name; none where images are not changed."""
        given = ((each.name, getattr(self, each.name), each.default) for each in dataclasses.fields(self))
        return {name: value for name, value, default in given if value != default} if self.version else {}

    @property
    def mixes(self) -> bool:
        return bool(self.mixup or self.cutmix)

    @property
    def crops(self) -> bool:
        return tuple(self.crop_area) != (1.0, 1.0)


def meanings() -> dict[str, str]:
    return {field.name: field.metadata["meaning"] for field in dataclasses.fields(Augmentation)}


def _require(ok: bool, name: str, received: object, expected: str) -> None:
    if not ok:
        raise InputError(
            f"augmentation '{name}'",
            received=received,
            expected=expected,
            action=f"Correct --config.augmentation.{name}.",
        )
