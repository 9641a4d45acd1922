"""The parity gate: one export against its run, on rows of the holdout."""

import pathlib
from collections.abc import Iterator

import tensorflow as tf

from pipeline.data.dataset import export_manifest
from pipeline.data.dataset.selection import Selection
from pipeline.release.export import trained
from pipeline.release.parity import exported, flips, skew
from pipeline.release.parity.limits import ParityLimits
from pipeline.release.parity.result import Agreement, Flips, ParityResult, Skew
from pipeline.release.parity.sample import first_rows
from pipeline.training.restore import RestoredRun

_DEFAULT = ParityLimits()


def parity(
    run: RestoredRun, directory: pathlib.Path, holdout: Selection, *, limits: ParityLimits = _DEFAULT
) -> ParityResult:
    """Whether the export at `directory` decides as the run does.

    Three comparisons: the export with the graph in memory, bit for bit; the run's precision with float32, by
    decisions; and training's input with serving's, row by row and feature by feature.

    Raises:
      InputError: the export is not whole, or a record of the holdout is damaged.
    """
    export_manifest.open_export(directory)
    sample = first_rows(holdout, limits.rows)
    subject, model = trained(run), tf.saved_model.load(str(directory))
    agreement = exported.agreement(subject, model, sample)
    found = flips.flips(run, sample)
    skewed = skew.skew(subject, model, sample)
    return ParityResult(
        reasons=[*reasons(agreement, found, skewed, limits)],
        limits=limits,
        exported=agreement,
        flips=found,
        skew=skewed,
    )


def reasons(agreement: Agreement, found: Flips | None, skewed: Skew, limits: ParityLimits) -> Iterator[str]:
    """A sentence for each comparison that failed."""
    if agreement.differing:
        yield (
            f"the export predicts otherwise than the graph in memory: {agreement.differing:,} of "
            f"{agreement.rows:,} rows, by up to {agreement.worst:.3g}; every bit must be the same"
        )
    if found:
        yield from _of_precision(found, limits)
    yield from _of_skew(skewed)


def _of_precision(found: Flips, limits: ParityLimits) -> Iterator[str]:
    if found.rate > limits.flipped:
        yield (
            f"{found.policy} decides otherwise than float32 on {found.flipped:,} of {found.rows:,} rows, "
            f"{found.rate:.2%}; at most {limits.flipped:.2%} is allowed"
        )
    if not found.moved <= limits.moved:
        yield (
            f"{found.policy} is {found.moved:.3g} from float32 (root of the mean square); at most "
            f"{limits.moved:.3g} is allowed"
        )


def _of_skew(skewed: Skew) -> Iterator[str]:
    for each in skewed.features:
        yield (
            f"feature '{each.feature}' reaches the model as another number in serving than in training, in "
            f"{each.rows:,} of {skewed.rows:,} rows: {each.example}"
        )
    if skewed.differing:
        yield (
            f"serving's raw columns give other predictions than training's input: {skewed.differing:,} of "
            f"{skewed.rows:,} rows, by up to {skewed.worst:.3g}"
        )
