"""One step, replayed: its examples with what each costs, the worst first."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from pipeline.data.dataset.origins.raw_rows import RawRow
from pipeline.data.input.targets import Mixed, TargetsOfBatch, partner_of
from pipeline.training.replaying.losses import Judge, worst_first
from pipeline.training.replaying.origins import origins_of
from pipeline.training.replaying.raw_features import RawFeatures, raw_features
from pipeline.training.replaying.record import Record
from pipeline.training.replaying.stored_records import require_sound
from pipeline.training.replaying.training_stream import TrainingStream
from pipeline.training.replaying.weights import Weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partner:
    """What an example is mixed with."""

    index: int  # in the global batch, from 0
    record: Record
    features: RawFeatures  # as stored, the label too
    share: float  # of the example itself in the mixture, 0 to 1
    weight: float | None = None  # its own, as the data hold it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """An example of a batch."""

    index: int  # in the global batch, from 0
    record: Record
    loss: float  # nats, or squared units of the label; times the weight, where it has one
    prediction: np.ndarray  # float32 [], or [classes]
    features: RawFeatures  # as stored, the label too
    inputs: dict[str, np.ndarray]  # as the model gets them; images are augmented
    raw: RawRow | None = None  # that the record was made of, where its dataset knows
    weight: float | None = None  # as the data hold it
    partner: Partner | None = None  # where training mixes examples


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayedStep:
    """A step and its worst examples."""

    step: int
    epoch: int  # from 0, of its first example
    first_position: int  # in the stream
    weights: Weights  # that judge it
    losses: np.ndarray  # float32 [global batch], in the order of the batch
    examples: tuple[Example, ...]  # the worst first
    weighted_by: str = ""  # the feature that weighs the examples; empty: none does

    @property
    def loss(self) -> float:
        """The mean over the global batch."""
        return float(self.losses.astype(np.float64).mean())


def replayed_step(
    stream: TrainingStream, step: int, *, judge: Judge, weights: Weights, examples: int
) -> ReplayedStep:
    """The step's batch, judged; at most `examples` of its examples are told in full.

    Raises:
      InputError: a record of the batch is damaged.
    """
    records = stream.records(step)
    require_sound(stream.data, records)
    batch = stream.batch(step)
    losses, predictions = judge(*batch)
    example_weights = stream.targets.weights_of(batch[1])
    worst = worst_first(losses)[:examples].tolist()
    told = [records[index] for index in worst]
    return ReplayedStep(
        step=step,
        epoch=records[0].epoch,
        first_position=records[0].position,
        weights=weights,
        weighted_by=stream.targets.weights.name if stream.targets.weights else "",
        losses=losses,
        examples=tuple(
            Example(
                index=index,
                record=records[index],
                loss=float(losses[index]),
                weight=None if example_weights is None else float(example_weights[index]),
                partner=_partner(stream, batch[1], records, index),
                prediction=predictions[index],
                features=features,
                inputs={name: tensor[index].numpy() for name, tensor in batch[0].items()},
                raw=raw,
            )
            for index, features, raw in zip(
                worst, raw_features(stream.data, told), origins_of(stream.data, told), strict=True
            )
        ),
    )


def _partner(
    stream: TrainingStream, targets: TargetsOfBatch, records: Sequence[Record], index: int
) -> Partner | None:
    if not isinstance(targets, Mixed):
        return None
    other = partner_of(index)
    weights = stream.targets.weights_of(targets)
    (features,) = raw_features(stream.data, [records[other]])
    return Partner(
        index=other,
        record=records[other],
        features=features,
        share=float(targets.shares[index]),
        weight=None if weights is None else float(weights[other]),
    )
