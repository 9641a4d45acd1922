"""What differs between two sides, printed in a table of operations and one of draws."""

from collections.abc import Iterator, Mapping

import numpy as np
import scipy.stats

from tests.augmentation import cases

LEAST_P = 0.001
MOST_LEVELS = 1
_TOLD_ONLY = "antialiased crop"  # what is left out where a crop shrinks by two or less
Arrays = Mapping[str, np.ndarray]


def compare_pixels(found: Arrays, wanted: Arrays) -> int:
    """Prints the largest difference of each operation; returns how many are too large."""
    worst: dict[str, tuple[int, str, list[float]]] = {}
    for key, expected in wanted.items():
        if not key.startswith("drawn/"):
            operation, _, setting = key.partition("/")
            difference = np.abs(found[key].astype(int) - expected)
            levels, where, means = worst.get(operation, (-1, "", []))
            largest = max((levels, where), (int(difference.max()), setting), key=lambda pair: pair[0])
            worst[operation] = (*largest, [*means, difference.mean()])
    print(f"{'operation':<28}{'pictures':>9}{'mean':>8}{'most':>6}  levels; the worst")
    for operation, (levels, where, means) in worst.items():
        print(f"{operation:<28}{len(means):>9,}{np.mean(means):>8.3f}{levels:>6}  {where}")
    return sum(levels > MOST_LEVELS for name, (levels, *_) in worst.items() if name != _TOLD_ONLY)


def p_values(found: Arrays, wanted: Arrays) -> Iterator[tuple[str, str, float]]:
    """(what, test, p-value) of everything that is drawn."""
    two = "Kolmogorov-Smirnov, two samples"
    for size in cases.IMAGES:
        name = f"crop {size}"
        both = [(sample[name][:, :2], sample[name][:, 2:]) for sample in (found, wanted)]
        for what, of in (
            ("area", lambda corner, side: side.prod(axis=1)),
            ("aspect", lambda corner, side: side[:, 1] / side[:, 0]),
            ("top", lambda corner, side: corner[:, 0]),
            ("left", lambda corner, side: corner[:, 1]),
        ):
            yield f"{name}, {what}", two, scipy.stats.ks_2samp(*(of(*one) for one in both)).pvalue
    for column, what in enumerate(("degrees", "scale", "right", "down")):
        mine = np.round(found["move"][:, column]) if column >= 2 else found["move"][:, column]
        yield f"move, {what}", two, scipy.stats.ks_2samp(mine, wanted["move"][:, column]).pvalue
    for name in (*cases.JITTER, "share of cutmix", "share of mixup"):
        yield name, two, scipy.stats.ks_2samp(found[name], wanted[name]).pvalue
    which, direction = found["operation"].T
    pairs = np.bincount((2 * which + (direction > 0)).astype(int), minlength=2 * len(cases.RAND_AUGMENT))
    yield "RandAugment, operation, direction", "chi-square, uniform", scipy.stats.chisquare(pairs).pvalue
    flips = int(found["flip"].sum())
    yield "flip", "binomial, a half", scipy.stats.binomtest(flips, len(found["flip"])).pvalue


def compare_draws(found: Arrays, wanted: Arrays) -> int:
    """Prints a p-value for everything that is drawn; returns how many are too small."""
    failed = 0
    print(f"\n{'drawn':<36}{'p':>8}  test; {cases.DRAWS:,} draws each")
    for what, test, p in p_values(found, wanted):
        failed += p < LEAST_P
        print(f"{what:<36}{p:>8.3f}  {test}")
    return failed
