"""Training that is killed: anywhere, in the middle of a save, or in a step just behind an epoch or a save.

Every process records the examples of each of its steps. What is in the weights at the end must have been
trained on once, at the right step, and a replay of a step must give the same batch again.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
import random
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pipeline.data.schema.feature_types import Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.training.engine.cluster import EXIT_LOST_WORKER
from pipeline.training.state import checkpoints
from pipeline.training.state import workdir as workdir_lib
from pipeline.training.state.checkpoints import Kept
from tests.shared import forked, pictures, real_data, small_run
from tests.shared.tiny_dataset import write_dataset
from tests.soak import commands, hooks
from tests.soak.case import KILL, Case, Ended, Generation, Moment
from tests.soak.harness import Soak, needs_data

_SAVING = "pipeline.training.engine.saving"
_STEPS_OF_A_SAVE = ("write_manifest", "publish_checkpoint", "remove_checkpoint")
# Where a save can be broken off.
PLACES = tuple(
    f"{when} {_SAVING}:{name}"
    for name in ("save_tensors", *(f"checkpoints.{name}" for name in _STEPS_OF_A_SAVE))
    for when in ("before", "after")
)
TOLERANCE = 1e-4  # of float32 weights by other replicas, which add the same numbers in another order
_REPLAYED = 8  # steps of each story
_CONFIG = "--config=tests/soak/training_config.py:"
Steps = dict[int, tuple[str, ...]]  # ids of the examples of a step, by the steps done before it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hosts:
    """Where a generation trains."""

    workers: int = 1
    replicas: int = 1  # of each worker

    @property
    def flags(self) -> tuple[str, ...]:
        if self.workers > 1:
            return ("--strategy=multi_worker",)
        if self.replicas > 1:
            return "--strategy=mirrored", f"--logical_devices={self.replicas}"
        return ("--strategy=one_device",)


ONE, TWO_REPLICAS, FOUR_REPLICAS = Hosts(), Hosts(replicas=2), Hosts(replicas=4)
TWO_WORKERS, FOUR_WORKERS = Hosts(workers=2), Hosts(workers=4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingCase(Case):
    """A run whose generations train on the hosts in turn; on one kind of them, its files are the same."""

    config: str
    content: str
    hosts: tuple[Hosts, ...]
    layout: str = "rows"
    arguments: tuple[str, ...] = ()
    is_mixture: bool = False
    compares_weights: bool = False  # by a tolerance, where hosts change
    epoch: int = 43  # steps
    signals: tuple[signal.Signals, ...] = (*KILL, *KILL, signal.SIGTERM)
    each: int = 5
    waits_for_handlers: bool = True
    peers_end_with: tuple[int, ...] = (EXIT_LOST_WORKER,)

    def make(self, made: pathlib.Path, soak: Soak) -> None:
        if self.content in _REAL:
            _REAL[self.content](made, soak.data)
            return
        schema, make_rows = _CONTENTS[self.content]
        for seed, name in enumerate(("dataset", "other") if self.is_mixture else ("dataset",)):
            splits = {
                split: make_rows(count, 10 * seed + at) for at, (split, count) in enumerate(_SIZES.items())
            }
            write_dataset(made / name, schema, splits, layout=self.layout)

    def bodies(self, generation: Generation) -> Sequence[Callable[[], None]]:
        hosts = self.hosts[generation.number % len(self.hosts)]
        return [
            functools.partial(self._train, generation, hosts, number, cluster)
            for number, cluster in enumerate(clusters(hosts.workers))
        ]

    def _train(self, generation: Generation, hosts: Hosts, number: int, cluster: str) -> None:
        if cluster:
            os.environ["TF_CONFIG"] = cluster
        place, moment = generation.folder / str(number), generation.moment
        hooks.record_steps(place / "steps", moment if moment and moment.process == number else None)
        mixture = f"(({str(generation.made / 'other')!r}, 'train[:300]', 0.4),)"
        forked.run_module(
            [
                *("pipeline.train", f"{_CONFIG}{self.config}", f"--dataset={generation.made / 'dataset'}"),
                *(f"--workdir={generation.story / 'run'}", "--precision=float32", "--deterministic"),
                *(f"--config.mixture={mixture}",) * self.is_mixture,
                *hosts.flags,
                *self.arguments,
            ]
        )

    def moment(
        self, draw: random.Random, number: signal.Signals, *, cpu_seconds: float, story: pathlib.Path
    ) -> Moment:
        """A third falls anywhere, a third into a save, a third just behind the end of an epoch or a save."""
        done, steps = newest(story / "run"), len(read_steps(story.parent / "whole" / "processes" / "0"))
        kind = draw.choice(["anywhere", "save", "step"])
        if kind == "save":  # the first worker alone saves
            return Moment(number=number, place=draw.choice(PLACES), call=draw.randrange(3))
        # A machine that is lost takes its run with it; a machine that has to stop stops all.
        workers = {hosts.workers for hosts in self.hosts}
        process = draw.randrange(min(workers)) if number == signal.SIGTERM else 0
        if kind == "step":
            first = max(done, self.epoch) if done < steps - 1 else done
            return Moment(number=number, process=process, step=min(first + draw.randrange(1, 8), steps - 1))
        most = cpu_seconds * (0.3 + 0.6 * (1 - done / steps))
        return Moment(number=number, process=process, cpu_seconds=draw.uniform(0, most))

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        wanted = 0
        if ended.was_hit:
            number = generation.moment.number
            wanted = -number if number == signal.SIGKILL else 128 + number
        if ended.code != wanted:
            yield f"exit code {ended.code}: {ended.stderr.strip()[-600:]}"

    def state(self, made: pathlib.Path, story: pathlib.Path) -> dict[str, object]:
        examples = {f"examples of step {step}": ids for step, ids in _of_weights(story).items()}
        return examples | (contents(story / "run") if len(set(self.hosts)) == 1 else {})

    def end_faults(self, made: pathlib.Path, story: pathlib.Path) -> Iterator[str]:
        done = forked.call(lambda: _replay(story), story / "replay", timeout=600)
        yield from done.stdout.splitlines()
        if done.code:
            yield f"the replay ended with {done.code}: {done.stderr.strip()[-600:]}"
        if self.compares_weights and story.name != "whole":
            found = forked.call(lambda: _compare_weights(story), story / "weights", timeout=600)
            yield from [*found.stdout.splitlines(), *found.error_lines[-1:]]


def clusters(workers: int) -> Sequence[str]:
    """TF_CONFIG of each worker; empty for one alone."""
    if workers == 1:
        return [""]
    servers = [socket.create_server(("localhost", 0)) for _ in range(workers)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(workers)
    ]


def newest(workdir: pathlib.Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    return max((entry.step for entry in checkpoints.newest_first(workdir / "checkpoints")), default=0)


def contents(workdir: pathlib.Path) -> dict[str, object]:
    """Digests of all that a run leaves and that no kill may change."""
    entries = checkpoints.newest_first(workdir / "checkpoints")
    chosen = {"last": entries[0], "best": Kept(number=1, metric="val_loss").best_first(entries)[0]}
    files = {
        f"{which} checkpoint, {entry.path.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for which, entry in chosen.items()
        for path in entry.path.glob("variables.*")
    }
    lines = [json.loads(line) for line in (workdir / "history.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if key not in workdir_lib.MEASURED} for line in lines]
    return files | {"evaluation.json": (workdir / "evaluation.json").read_text(), "history.jsonl": kept}


def read_steps(processes: pathlib.Path) -> Steps:
    """What the processes that trained together recorded, but for a step that not all finished recording."""
    parts: dict[int, dict[int, list[str]]] = defaultdict(dict)
    for path in sorted(processes.glob("*/steps")):
        for line in path.read_text().split("\n")[:-1]:  # a kill may cut the last one
            step, replica, *ids = line.split()
            if int(replica) in parts[int(step)]:
                raise ValueError(f"{path}: step {step} was applied twice")
            parts[int(step)][int(replica)] = ids
    replicas = max((len(part) for part in parts.values()), default=0)
    return {
        step: tuple(each for replica in sorted(part) for each in part[replica])
        for step, part in sorted(parts.items())
        if len(part) == replicas
    }


def _of_weights(story: pathlib.Path) -> Steps:
    """The steps that are in the weights at the end.

    What a process did from the step on at which a later one began was lost with it.
    """
    lasting: Steps = {}
    for processes in sorted((story / "processes").iterdir(), key=lambda path: int(path.name)):
        if steps := read_steps(processes):
            lasting = {step: ids for step, ids in lasting.items() if step < min(steps)} | steps
    return lasting


def _replay(story: pathlib.Path) -> None:
    """Prints which steps a replay gives other examples for than were trained on."""
    from pipeline.training.replay.replay import Replay

    trained, replay = _of_weights(story), Replay(story / "run")
    for step in random.Random(story.name).sample(sorted(trained), min(_REPLAYED, len(trained))):
        replay.step(step, examples=1)
        if tuple(hooks.ids_of(*replay.stream.batch(step))) != trained[step]:
            print(f"the replay of step {step} gives other examples")


def _compare_weights(story: pathlib.Path) -> None:
    """Prints by how much weights differ from those of the undisturbed story, where that is too much."""
    import tensorflow as tf

    readers = []
    for folder in (story, story.parent / "whole"):
        entry = checkpoints.newest_first(folder / "run" / "checkpoints")[0]
        readers.append(tf.train.load_checkpoint(str(entry.path / "variables")))
    for name in readers[0].get_variable_to_shape_map():
        found, wanted = (np.asarray(reader.get_tensor(name)) for reader in readers)
        if found.dtype.kind == "f" and found.size:
            off = np.max(np.abs(found.astype("f8") - wanted)) / max(1e-12, np.max(np.abs(wanted)))
            if not off <= TOLERANCE:
                print(f"{name} differs by {off:.2g}, of which {TOLERANCE:g} are allowed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GoodputCase(Case):
    """A run of many seconds, whose goodput log must add up to the wall time, measured from outside."""

    tolerance: float = 0.01
    reach: float = 0.4

    def make(self, made: pathlib.Path, soak: Soak) -> None:
        sizes = {"train": 40_000, "validation": 1_000, "test": 1_001}  # a checkpoint every 1,000 steps
        splits = {name: small_run.rows(number, seed=number) for name, number in sizes.items()}
        write_dataset(made / "dataset", small_run.SCHEMA, splits, layout="blocks")

    def bodies(self, generation: Generation) -> Sequence[Callable[[], None]]:
        (generation.folder).mkdir(parents=True)
        (generation.folder / "started").write_text(str(time.time()))
        arguments = (
            *("pipeline.train", "--config=pipeline/configs/tabular.py", "--config.global_batch=16"),
            *(f"--dataset={generation.made / 'dataset'}", f"--workdir={generation.story / 'run'}"),
            "--config.train.steps=60000",
        )
        return [lambda: forked.run_module(arguments)]

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        (generation.folder / "ended").write_text(str(time.time()))
        yield from super().faults_of(generation, ended)

    def end_faults(self, made: pathlib.Path, story: pathlib.Path) -> Iterator[str]:
        from pipeline.training.state import goodput
        from pipeline.training.state.goodput import time_spent

        wall = 0.0
        for folder in (story / "processes").iterdir():
            started, ended = (float((folder / name).read_text()) for name in ("started", "ended"))
            wall += ended - started
        counted = time_spent(goodput.read_goodput(story / "run" / "ledger.jsonl")).wall_s
        print(f"  {self.name}: wall {wall:.2f} s, counted {counted:.2f} s", flush=True)
        if abs(counted / wall - 1) > self.tolerance:
            yield f"wall {wall:.2f} s, counted {counted:.2f} s"


def _numbers(count: int, seed: int) -> list[dict]:
    return small_run.rows(count, seed=seed)


def _weighted(count: int, seed: int) -> list[dict]:
    weights = np.random.default_rng(seed).exponential(size=count).tolist()
    return [row | {"weight": weight} for row, weight in zip(_numbers(count, seed), weights, strict=True)]


def _images(count: int, seed: int) -> list[dict]:
    return [
        {"image": pictures.encode(pictures.noise(12, 12, 3, seed=1000 * seed + i), "PNG"), "y": i % 2}
        for i in range(count)
    ]


def _tokens(count: int, seed: int) -> list[dict]:
    words = np.random.default_rng(seed).integers(1, 500, size=(count, 9))
    return [
        {"words": each.tolist(), "x": math.nan if i % 5 == 0 else float(i), "y": i % 3}
        for i, each in enumerate(words)
    ]


_SIZES = {"train": 700, "validation": 40, "test": 40}
_IMAGES = Schema(
    name="pictures",
    features=(Image(name="image", height=12, width=12, channels=3), Label(name="y", classes=("no", "yes"))),
)
_TOKENS = Schema(
    name="tokens",
    features=(
        Tokens(name="words", length=9, vocabulary_size=500),
        Numeric(name="x", missing="mark"),
        Label(name="y", classes=("no", "maybe", "yes"), task="multiclass"),
    ),
)
_WEIGHTED = Schema(name="weighted", features=(Numeric(name="weight"), *small_run.SCHEMA.features))
_CONTENTS: Mapping[str, tuple[Schema, Callable[[int, int], list[dict]]]] = {
    "numbers": (small_run.SCHEMA, _numbers),
    "weighted": (_WEIGHTED, _weighted),
    "images": (_IMAGES, _images),
    "tokens": (_TOKENS, _tokens),
}


def _adult(made: pathlib.Path, data: pathlib.Path) -> None:
    """With a number for each row, so that no two examples are the same."""
    made.mkdir(parents=True)
    lines = (data / "adult" / "adult-train.csv").read_text().splitlines()
    numbered = "\n".join(f"{number},{line}" for number, line in enumerate(lines) if line.strip())
    (made / "adult.csv").write_text(f"{numbered}\n")
    columns = f"--column_names=number,{real_data.ADULT_COLUMNS}"
    source = ("--format=csv", columns, f"--input={made / 'adult.csv'}")
    _convert(made, source, "income", "--splits=train=0.8,validation=0.1,test=0.1")


def _mnist(made: pathlib.Path, data: pathlib.Path) -> None:
    made.mkdir(parents=True)
    folder = real_data.unpack_mnist(data, made)
    source = ("--format=images", f"--input=train={folder}/train", f"--input=test={folder}/test")
    _convert(made, source, "label")


def _convert(made: pathlib.Path, source: Sequence[str], label: str, *more: str) -> None:
    schema = made / "schema.json"
    infer = ("beam_jobs.infer_schema", *source, f"--label={label}", f"--output={schema}")
    convert = ("beam_jobs.convert", *source, f"--schema={schema}", f"--output={made / 'dataset'}", *more)
    for arguments in (infer, convert):
        commands.finish(arguments, made / "output")


_REAL: Mapping[str, Callable[[pathlib.Path, pathlib.Path], None]] = {"adult": _adult, "mnist": _mnist}
_SETUPS = {"one_device": ONE, "two_devices": TWO_REPLICAS, "two_workers": TWO_WORKERS}
_EPOCHS = {"table": 43, "adult": 50, "mnist": 70}
_WINDOWS, _GLOBAL = ("--config.shuffle=windows",), ("--config.shuffle=global",)


def _elastic(name: str, sentence: str, *hosts: Hosts, content: str = "", **more: object) -> TrainingCase:
    """A run whose hosts change: the same examples in each step."""
    return TrainingCase(
        name=f"elastic_{name}",
        sentence=f"{sentence} on hosts that change: the same examples in each step, and in its replay.",
        config=name,
        content=content or "numbers",
        hosts=hosts,
        **more,
    )


CASES: tuple[Case, ...] = (
    *(
        TrainingCase(
            name=f"train_{content}_{setup}",
            sentence=f"Trains on {content} by {setup.replace('_', ' ')}: the same bytes and examples.",
            config=content,
            content="numbers" if content == "table" else content,
            hosts=(hosts,),
            epoch=_EPOCHS[content],
            lacks=needs_data if content in _REAL else lambda soak: "",
        )
        for content in _EPOCHS
        for setup, hosts in _SETUPS.items()
    ),
    _elastic("rows", "Trains on rows", ONE, TWO_REPLICAS, ONE, arguments=_GLOBAL),
    _elastic("windows", "Trains on windows", ONE, TWO_REPLICAS, arguments=_WINDOWS),
    _elastic("blocks", "Trains on blocks", ONE, FOUR_REPLICAS, TWO_REPLICAS, layout="blocks"),
    _elastic("workers", "Trains on rows", TWO_WORKERS, ONE, TWO_WORKERS, TWO_REPLICAS, arguments=_GLOBAL),
    _elastic("mixture", "Trains on a mixture", ONE, TWO_REPLICAS, is_mixture=True),
    _elastic(
        "mixture_blocks",
        "Trains on a mixture of blocks",
        *(TWO_REPLICAS, TWO_WORKERS, ONE),
        layout="blocks",
        arguments=_WINDOWS,
        is_mixture=True,
    ),
    _elastic("weighted", "Trains with weights of examples", ONE, TWO_REPLICAS, content="weighted"),
    _elastic("images", "Trains on augmented images", ONE, TWO_REPLICAS, content="images"),
    _elastic("mixed_images", "Trains on mixed images", ONE, FOUR_REPLICAS, TWO_REPLICAS, content="images"),
    _elastic("tokens", "Trains on tokens", TWO_REPLICAS, ONE, content="tokens", layout="blocks"),
    dataclasses.replace(
        _elastic("weights", "Trains with few steps", ONE, TWO_WORKERS, FOUR_WORKERS),
        config="elastic",
        epoch=14,
        compares_weights=True,
    ),
    GoodputCase(name="goodput", sentence="Trains: the goodput log adds up to the wall time within 1%."),
)
