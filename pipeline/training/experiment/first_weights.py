"""First weights that a run, an export or a file of Keras gives to a model: by the names of its variables.

A variable takes the array that has its path, such as `conv/kernel`, and its shape. Files of Keras 3 number
the weights of a layer, `conv/0`: a variable takes an array with that name, too. Where one name is the end of
another, such as `backbone/conv/kernel`, both mean one variable unless there are several such pairs. Variables
that a source lacks, such as a new head, begin as the seed sets them.

Only arrays are read from a file: no layer is made from it, and no code in it is run.
"""

import collections
import dataclasses
import functools
import hashlib
import io
import pathlib
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import h5py
import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from pipeline.base import files
from pipeline.base.cli import flags
from pipeline.base.errors import InputError, nearest
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from pipeline.training.engine.checkpoint import load_tensors, save_tensors
from pipeline.training.experiment import checks
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.model import matching
from pipeline.training.state import checkpoints
from pipeline.training.state import start as start_lib
from pipeline.training.state.start import Start
from pipeline.training.state.workdir import Workdir

FLAG = "--config.init.source"

Arrays = Mapping[str, np.ndarray]  # arrays by the names of variables


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A file or directory that holds weights.

    Attributes:
      digest: SHA-256 of the content that is read.
      read: function () → its arrays.
      schema: schema of the data on which they were trained; None where that is not known.
      chosen: which of a run's checkpoints it is; empty where there is no choice.
    """

    path: pathlib.Path
    digest: str
    read: Callable[[], Arrays]
    schema: Schema | None = None
    chosen: str = ""

    def __str__(self) -> str:
        chosen = f", {self.chosen}" if self.chosen else ""
        return f"{self.path}{chosen} (SHA-256 {self.digest[:12]})"

    @property
    def recorded(self) -> dict[str, object]:
        """The entry of run.json about it, before it is read."""
        return {"source": str(self.path), "digest": self.digest}

    def warning(self, schema: Schema) -> str:
        """A warning that its head has the right shape but was trained for other classes; empty where it was
        not.
        """
        was, is_ = self.schema.label if self.schema else schema.label, schema.label
        if was.classes == is_.classes or len(was.classes) != len(is_.classes):
            return ""
        return (
            f"the weights are of label {_described(was)}, here it is {_described(is_)}: name the head in "
            "--config.init.without, such as ('logits/*',), to begin it anew"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """The arrays that a model takes from a source.

    Attributes:
      arrays: arrays by the paths of the model's variables.
      not_loaded: the reason why a variable of the model has no array, by its path.
      not_used: names in the source that no variable took.
    """

    arrays: Arrays
    not_loaded: Mapping[str, str]
    not_used: Sequence[str]

    @property
    def recorded(self) -> dict[str, object]:
        return {
            "loaded": sorted(self.arrays),
            "not_loaded": dict(self.not_loaded),
            "not_used": list(self.not_used),
        }

    def lines(self, source: Source) -> tuple[str, ...]:
        """Lines that announce it."""
        loaded, new = len(self.arrays), len(self.not_loaded)
        said = f"the model's {loaded + new:,} weights from {source}"
        return (
            f"begins     with {loaded:,} of {said}; {new:,} begin{'s' * (new == 1)} at random"
            if new
            else f"begins     with all of {said}",
            *_first_of(f"not loaded {name}: {why}" for name, why in self.not_loaded.items()),
            *_first_of(f"not used   {name}" for name in self.not_used),
        )


_MOST_LINES = 8


def _first_of(lines: Iterable[str]) -> list[str]:
    all_lines = list(lines)
    more = len(all_lines) - _MOST_LINES
    return (
        all_lines if more <= 1 else [*all_lines[:_MOST_LINES], f"           and {more:,} more: report.html"]
    )


def source_of(init: str) -> Source:
    """Returns the weights at `init`; raises InputError where nothing there can be read."""
    path = flags.absolute(init)
    if path.is_dir():
        if (path / "saved_model.pb").exists():
            return _of_export(path)
        start = start_of_run(path, flag=FLAG)
        recorded = str(start.recorded["checkpoint"])
        schema = schema_lib.load(start.source.schema)
        read = functools.partial(_run_arrays, start)
        return Source(path=path, digest=recorded, read=read, schema=schema, chosen=start.chosen)
    reader = next((read for ending, read in _FILES.items() if path.name.endswith(ending)), None)
    if reader is None or not path.exists():
        what = "a file of another kind" if path.exists() else "no such file or directory"
        raise _error(path, what, f"a --workdir, an export, or a file {', '.join(_FILES)}")
    return Source(path=path, digest=files.sha256(path), read=functools.partial(_file_arrays, path, reader))


def start_of_run(path: pathlib.Path, *, flag: str) -> Start:
    """Returns the checkpoint of a finished run that an export would take: the best if the run keeps one, else
    the last.

    Raises:
      InputError: there is no such run, or its checkpoint is damaged; `flag` named it.
    """
    run, record = start_lib.finished_run(path, flag=flag)
    kept = checks.kept_best(config_lib.parse(record.config), schema_lib.load(run.schema).label)
    choice = kept.usual(run.checkpoints)
    entry, *_ = checkpoints.chosen_to_keep(run.checkpoints, choice, kept=kept)
    start = start_lib.start_of(run, record, entry, flag=flag)
    return dataclasses.replace(start, chosen=checkpoints.described(entry.step, choice, kept=kept))


def load(model: keras.Model, source: Source, *, without: Sequence[str] = ()) -> Match:
    """Gives the model the weights that fit it; returns which ones do.

    Args:
      without: patterns of variables that take no weights.

    Raises:
      InputError: none fits; one holds a number that is not finite; or a pattern matches no variable.
    """
    left_out = {each.path for each in matching(without, model.weights, key="init.without")}
    found = match(model, source.read(), left_out=left_out)
    if not found.arrays:
        raise _nothing_fits(source.path, _names(model), found)
    for name, array in found.arrays.items():
        if not np.all(np.isfinite(array.astype(np.float32, copy=False))):
            raise _error(
                source.path, f"{name} with values that are infinite or not a number", "finite weights"
            )
    by_path = {variable.path: variable for variable in _weights(model)}
    for name, array in found.arrays.items():
        by_path[name].assign(array.astype(tf.as_dtype(by_path[name].dtype).as_numpy_dtype, copy=False))
    return found


def _nothing_fits(path: pathlib.Path, names: Mapping[str, Sequence[str]], found: Match) -> InputError:
    here = list(names)
    why = f" ({here[0]}: {found.not_loaded[here[0]]})" if here else ""
    close = ((one, nearest(one, found.not_used)) for own in names.values() for one in own)
    pair = next((f"'{there}' there is nearest to '{one}' here; " for one, there in close if there), "")
    action = (
        f"{pair}build the model with the names and sizes of that one, or begin with the weights of the seed."
    )
    return _error(
        path,
        f"no weight of this model's{why}, but {_some(found.not_used) or 'none at all'}",
        f"some of {_some(here)}, each of its shape",
        action=f"{action[0].upper()}{action[1:]}",
    )


# --- The run's own copy of all its first weights: with it, the run no longer needs the source.


def keep(model: keras.Model, workdir: Workdir) -> None:
    """Copies the model's weights to `start/`, whole or not at all."""
    with start_lib.renewed(workdir) as temporary:
        save_tensors(temporary.path, {f"{n:05d}": value for n, value in enumerate(model.get_weights())})


def kept(workdir: Workdir) -> list[np.ndarray] | None:
    """Returns the first weights that a run kept, in the order of `model.weights`; None: it kept none."""
    if not workdir.first_weights.exists():
        return None
    arrays = load_tensors(workdir.start.path)
    return [arrays[name] for name in sorted(arrays)]


# --- Names: which array belongs to which variable.


def match(model: keras.Model, arrays: Arrays, *, left_out: Collection[str] = ()) -> Match:
    """Finds the array for each of the model's weights: one with its name, or one whose name has the same
    end.
    """
    free, names = dict(_aligned(model, arrays)), _names(model)
    named = {
        path: found for path, own in names.items() if (found := next((n for n in own if n in free), None))
    }
    lacking = {path: own for path, own in names.items() if path not in named}
    named |= dict(_nested(lacking, free.keys() - set(named.values())))
    taken: dict[str, np.ndarray] = {}
    not_loaded = _ambiguous(model)
    for variable in _weights(model):
        path, shape = variable.path, tuple(variable.shape)
        if path in left_out:
            not_loaded[path] = "left out by config.init.without"
        elif path not in named:
            not_loaded[path] = "no such name there"
        elif free[named[path]].shape != shape:
            not_loaded[path] = f"{list(free[named[path]].shape)} there, {list(shape)} here"
        else:
            taken[path] = free[named[path]]
    not_used = free.keys() - {named[path] for path in taken}
    return Match(arrays=taken, not_loaded=not_loaded, not_used=tuple(sorted(not_used)))


def _ambiguous(model: keras.Model) -> dict[str, str]:
    """Returns, for weights that share a path, the reason why they take no arrays: no name says which is
    which.
    """
    count = collections.Counter(variable.path for variable in model.weights if "float" in variable.dtype)
    return {path: f"{number} weights here have this name" for path, number in count.items() if number > 1}


def _weights(model: keras.Model) -> list[keras.Variable]:
    """Returns the variables that are not random state, and whose path no other variable has."""
    count = collections.Counter(variable.path for variable in model.weights)
    return [each for each in model.weights if "float" in each.dtype and count[each.path] == 1]


def _names(model: keras.Model) -> dict[str, tuple[str, ...]]:
    """Returns the names of each weight, by its path: the path, and its number in its layer."""
    numbered = {}
    for layer in model._flatten_layers():  # no public way reaches layers in layers (Keras 3.15)
        for number, variable in enumerate([*layer._trainable_variables, *layer._non_trainable_variables]):
            numbered[id(variable)] = f"{layer.path}/{number}"
    return {
        variable.path: tuple(filter(None, (variable.path, numbered.get(id(variable)))))
        for variable in _weights(model)
    }


def _nested(lacking: Mapping[str, Sequence[str]], free: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields each (path, name) of which one ends with the other, if neither has a second partner."""
    pairs = [
        (path, name) for path, own in lacking.items() for name in free if any(_ends(one, name) for one in own)
    ]
    paths, names = (collections.Counter(column) for column in zip(*pairs, strict=True)) if pairs else ({}, {})
    yield from ((path, name) for path, name in pairs if paths[path] == names[name] == 1)


def _ends(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return "/" in short and long.endswith(f"/{short}")


_NUMBERED = re.compile(r"(.*?)(?:_(\d+))?")  # matches `conv2d_7`


def _aligned(model: keras.Model, arrays: Arrays) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the arrays under new names, in which the layers that Keras named are numbered from the first on.

    Keras counts such layers over a whole process: if a notebook built other models before, the first layer of
    this model is called `conv2d_7`. That name would fit another layer here.
    """
    here, there = collections.defaultdict(set), collections.defaultdict(set)
    for layer in model._flatten_layers():
        base, number = _NUMBERED.fullmatch(layer.name).groups()
        if base.replace("_", "") == type(layer).__name__.lower():
            here[base].add(int(number or 0))
    for name in arrays:
        for part in name.split("/")[:-1]:
            base, number = _NUMBERED.fullmatch(part).groups()
            there[base].add(int(number or 0))
    renamed = {
        f"{base}_{number}": f"{base}_{rank}" if rank else base
        for base, numbers in there.items()
        if 0 in here[base] and 0 not in numbers
        for rank, number in enumerate(sorted(numbers))
    }
    for name, array in arrays.items():
        *layers, last = name.split("/")
        yield "/".join([*(renamed.get(layer, layer) for layer in layers), last]), array


# --- Runs and exports.


def _run_arrays(start: Start) -> Arrays:
    """Returns the weights that are evaluated: averages if the run keeps them."""
    values, paths = load_tensors(start.checkpoint), checkpoints.read_manifest(start.checkpoint).variables
    model = ((paths[name], values[name]) for name in sorted(paths) if name.startswith("model/"))
    averages = _numbers((paths[name], values[name]) for name in paths if name.startswith("ema/"))
    return _numbers(model) | averages


def _of_export(path: pathlib.Path) -> Source:
    parts = sorted((path / "variables").glob("variables.*"))
    if not parts:
        raise _error(path, "an export without variables/", "one that is whole")
    digest = hashlib.sha256("".join(map(files.sha256, parts)).encode()).hexdigest()
    file = path / schema_lib.FILE_NAME
    schema = schema_lib.load(file) if file.exists() else None
    return Source(path=path, digest=digest, read=functools.partial(_export_arrays, path), schema=schema)


def _export_arrays(path: pathlib.Path) -> Arrays:
    try:
        reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
        keys = {each.checkpoint_key: each.full_name for node in graph.nodes for each in node.attributes}
        return _numbers((name, reader.get_tensor(key)) for key, name in keys.items() if name)
    except (ValueError, tf.errors.OpError) as error:
        raise _damaged(path, error) from None


# --- Files of Keras: HDF5, by itself or in a .keras archive.


def _file_arrays(path: pathlib.Path, read: Callable[[pathlib.Path], Arrays]) -> Arrays:
    try:
        return read(path)
    except (OSError, KeyError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, error) from None


def _archive_arrays(path: pathlib.Path) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        return _h5_arrays(io.BytesIO(archive.read("model.weights.h5")))


def _h5_arrays(path: pathlib.Path | io.BytesIO) -> Arrays:
    with h5py.File(path) as file:
        legacy = _group(file, "model_weights")
        root = file if legacy is None else legacy
        is_legacy = any(name.startswith("layer_names") for name in root.attrs)
        name_of = _legacy_name if is_legacy else functools.partial(_layer_name, root)
        return _numbers((name_of(place), _array(place, data)) for place, data in _datasets(root))


_FILES: Mapping[str, Callable[[pathlib.Path], Arrays]] = {
    ".keras": _archive_arrays,
    ".weights.h5": _h5_arrays,
    ".h5": _h5_arrays,
}


def _datasets(root: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields the path and the data of all weights, without the optimizer's; no link is followed."""
    found: list[tuple[str, h5py.Dataset]] = []
    root.visititems(lambda place, each: found.append((place, each)) if _holds_numbers(each) else None)
    yield from (pair for pair in found if not pair[0].startswith("optimizer/"))


def _holds_numbers(each: h5py.Dataset | h5py.Group) -> bool:
    return isinstance(each, h5py.Dataset) and (each.dtype.kind == "f" or _is_bfloat16(each))


def _is_bfloat16(data: h5py.Dataset) -> bool:
    return data.attrs.get("dtype") == "bfloat16"  # HDF5 does not know it: Keras says so


_DENSEST = 1032  # the most times that deflate makes data smaller (zlib.net/zlib_tech.html)


def _array(place: str, data: h5py.Dataset) -> np.ndarray:
    if data.external or data.is_virtual:  # such a file would make us read other files of this machine
        raise ValueError(f"{place} is kept in another file")
    if data.shape is None:
        raise ValueError(f"{place} holds nothing")
    held = min(data.id.get_storage_size(), data.file.id.get_filesize())
    if data.nbytes > _DENSEST * held:  # the memory would be taken before any of it is read
        raise ValueError(f"{place} declares {data.nbytes:,} bytes and holds {held:,}")
    return np.array(data, dtype=tf.bfloat16.as_numpy_dtype if _is_bfloat16(data) else None)


def _group(parent: h5py.Group, name: str) -> h5py.Group | None:
    """Returns a group; None where there is none, or a link, which may lead out of the file."""
    is_own = isinstance(parent.get(name, getlink=True), h5py.HardLink)
    return parent[name] if is_own and isinstance(parent[name], h5py.Group) else None


def _layer_name(root: h5py.Group, place: str) -> str:
    """Returns `backbone/conv/0` of `layers/functional/layers/conv2d/vars/0`, if the file tells the names of
    layers.
    """
    *folders, _, number = place.split("/")
    parent, names = root, []
    for folder in folders:
        parent = parent[folder]
        if (told := _group(parent, "vars")) is not None:
            names.append(str(told.attrs.get("name", folder)))
    model = _group(root, "vars")
    whole = "" if model is None else str(model.attrs.get("name", ""))
    return "/".join([*(names or [whole]), number])


def _legacy_name(place: str) -> str:
    """Returns `conv/kernel` of `conv/conv/kernel:0`: files of Keras 2 have a group for each layer, and then
    the name.
    """
    return place.partition("/")[2].partition(":")[0]


def _numbers(pairs: Iterable[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns the arrays of numbers by name, without those that share a name."""
    listed = collections.defaultdict(list)
    for name, array in pairs:
        if array.dtype.kind == "f" or array.dtype == tf.bfloat16.as_numpy_dtype:
            listed[name].append(array)
    # An export lists a variable more than once.
    return {name: some[0] for name, some in listed.items() if all(_same(some[0], one) for one in some[1:])}


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _described(label: Label) -> str:
    return f"'{label.name}' ({_some(label.classes) or label.task})"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6:,} more" if len(names) > 6 else "")


def _damaged(path: pathlib.Path, error: Exception) -> InputError:
    return _error(path, f"a file that cannot be read ({' '.join(str(error).split())})", "one that is whole")


def _error(path: pathlib.Path, received: str, expected: str, *, action: str = "") -> InputError:
    otherwise = "Correct the path, or leave it out to begin with the weights of the seed."
    return InputError(f"{FLAG}={path}", received=received, expected=expected, action=action or otherwise)
