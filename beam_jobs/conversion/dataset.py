"""Makes a dataset directory out of a finished run: nothing looks whole until the manifest is there."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import pathlib
import re
import types
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_jobs.checks import leakage
from beam_jobs.checks.anomalies import Anomaly, Policy
from beam_jobs.checks.validate import Verdict
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.writer import WrittenShard
from beam_jobs.launch import claims
from beam_jobs.launch.outcome import Outcome
from beam_jobs.launch.output import Destination
from beam_jobs.sources import source
from beam_jobs.sources.byte_streams import lines_before
from beam_jobs.sources.files import copies, read_bytes
from beam_jobs.sources.tfrecord import example_text
from pipeline.base.errors import DamagedError, InputError
from pipeline.data.dataset import blocks, records
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import File, Manifest, Shard
from pipeline.data.dataset.row_hashes import Leak
from pipeline.data.dataset.shards import Index
from pipeline.data.dataset.statistics import SplitStatistics, Statistics
from pipeline.data.dataset.tfrecord import HEADER_BYTES
from pipeline.data.origins import files as origin_files
from pipeline.data.origins import reader as origins
from pipeline.data.origins.files import Entry, Folder
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding

_VERSION = re.compile(r"\d+\.\d+\.\d+")


def publish(
    destination: Destination,
    *,
    outcome: Outcome,
    plan: Plan,
    schema: Schema,
    statistics: Statistics,
    verdict: Verdict,
    conversion: Mapping[str, object],
) -> Manifest:
    """Moves the shards to their names, describes them, and writes the manifest last."""
    directory = destination.directory
    splits = {split: _move_shards(destination, outcome, split) for split in plan.shards}
    version = directory.name if _VERSION.fullmatch(directory.name) else "1.0.0"
    _write_descriptions(directory, splits, plan=plan, schema=schema, version=version)
    _write_measures(directory, outcome, plan, schema, statistics)
    (directory / claims.ANOMALIES).write_text(verdict.dumps(), encoding="utf-8")
    shards = {shard.path for split in splits.values() for shard in split}
    files = [path for path in _files(directory) if path not in shards]
    conversion_file = directory / manifest_lib.CONVERSION_FILE_NAME
    conversion_file.write_text(records.dumps_conversion(conversion), encoding="utf-8")
    manifest = Manifest(
        name=schema.name,
        version=version,
        layout=plan.layout,
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint=plan.fingerprint,
        rows_read=outcome.rows_read,
        rows_rejected=outcome.rejected.rows,
        splits=splits,
        files=tuple(_described(directory, path) for path in files),
    )
    if plan.origins:
        _publish_origins(destination, outcome, plan)
    destination.commit(manifest_lib.FILE_NAME, manifest_lib.dumps(manifest))
    return manifest


def _publish_origins(destination: Destination, outcome: Outcome, plan: Plan) -> None:
    """Publishes the origins. The manifest does not list them, so names of raw files do not change its
    digest.
    """
    (destination.directory / origins.FOLDER).mkdir()
    for shard in outcome.files:
        destination.move(shard.origins_path, origins.file_name(shard.file_name))
    folder = Folder(_absolute(plan), plan.input_splits[0].line_ends)
    content = origin_files.dumps(_entries(plan, outcome.lines), folder=folder, files_id=plan.origins)
    (destination.directory / origins.FILES_NAME).write_bytes(content)


def _absolute(plan: Plan) -> str:
    """Returns the directory of all inputs, as an absolute path, which is of use elsewhere too."""
    is_local = plan.input_splits[0].stamps and "://" not in plan.root
    return str(pathlib.Path(plan.root).absolute() / "_")[:-1] if is_local else plan.root


def _entries(plan: Plan, lines: Mapping[str, int]) -> list[Entry]:
    sizes = collections.Counter[str]()
    for input_split in plan.input_splits:
        sizes[input_split.paths[0]] += input_split.bytes
    entries: list[Entry] = []
    for input_split, before in zip(plan.input_splits, lines_before(plan.input_splits, lines), strict=True):
        if input_split.line_ends and len(input_split.paths) == 1:
            entries.append(
                Entry(input_split.file_names[0], before, input_split.start, sizes[input_split.paths[0]])
            )
        else:
            entries += (Entry(name, before) for name in input_split.file_names)
    return entries


def _move_shards(destination: Destination, outcome: Outcome, split: str) -> tuple[Shard, ...]:
    shards = []
    for shard in shards_of(outcome, split):
        destination.move(shard.path, shard.file_name)
        destination.move(shard.index_path, shards_lib.file_name(shard.file_name))
        shards.append(
            Shard(
                path=shard.file_name,
                bytes=shard.bytes,
                sha256=shard.sha256,
                records=shard.records,
                rows=shard.examples,
            )
        )
    return tuple(shards)


def _write_descriptions(
    directory: pathlib.Path,
    splits: Mapping[str, Sequence[Shard]],
    *,
    plan: Plan,
    schema: Schema,
    version: str,
) -> None:
    write_tfds_metadata(schema, splits, layout=plan.layout, version=version, directory=directory)
    # `schema_lib.save` is not used: a kill in the middle of it would leave a file whose name is not ours.
    (directory / schema_lib.FILE_NAME).write_text(schema_lib.dumps(schema), encoding="utf-8")
    (directory / claims.SCHEMA_PROTO).write_text(schema_proto(schema), encoding="utf-8")


def _write_measures(
    directory: pathlib.Path, outcome: Outcome, plan: Plan, schema: Schema, statistics: Statistics
) -> None:
    (directory / manifest_lib.STATISTICS_FILE_NAME).write_bytes(statistics_lib.dumps(statistics))
    gathered = encoding.dumps(gathered_of(outcome, plan), schema)
    (directory / encoding.FILE_NAME).write_bytes(gathered)
    source.save_rejections(outcome.rejected, directory / manifest_lib.REJECTED_FILE_NAME)


def _files(directory: pathlib.Path) -> list[str]:
    """Returns relative paths of the files in `directory`, without temporary ones."""
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != claims.TEMPORARY)


def _described(directory: pathlib.Path, path: str) -> File:
    content = (directory / path).read_bytes()
    return File(path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


# --- Metadata for TFDS and tensorflow-metadata.


_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_PROTO_TYPE = {"float32": schema_pb2.FLOAT, "int64": schema_pb2.INT, "string": schema_pb2.BYTES}


def write_tfds_metadata(
    schema: Schema,
    splits: Mapping[str, Sequence[Shard]],
    *,
    layout: str,
    version: str,
    directory: pathlib.Path,
) -> None:
    """Writes dataset_info.json, features.json and class names with TFDS itself."""
    # Imported here: this runs once, in the launcher, and workers need not have TFDS.
    import tensorflow_datasets as tfds

    template = tfds.core.ShardedFileTemplate(
        data_dir=directory, template=_TEMPLATE, dataset_name=schema.name, filetype_suffix="tfrecord"
    )
    infos = [
        tfds.core.SplitInfo(
            name=split,
            shard_lengths=[shard.records for shard in shards],
            num_bytes=sum(shard.bytes for shard in shards),
            filename_template=template.replace(split=split),
        )
        for split, shards in splits.items()
    ]
    tfds.folder_dataset.write_metadata(
        data_dir=directory,
        features=tfds.features.FeaturesDict(_tfds_features(schema, layout)),
        split_infos=infos,
        version=version,
        filename_template=template,
        check_data=False,
        supervised_keys=_supervised_keys(schema, layout),
    )


def schema_proto(schema: Schema) -> str:
    """The schema as tensorflow-metadata's text proto."""
    message = schema_pb2.Schema()
    for feature in schema.features:
        entry = message.feature.add(name=feature.name, type=_PROTO_TYPE[feature.dtype])
        entry.presence.min_fraction = 1.0  # every record holds every feature
        entry.shape.SetInParent()
        for size in feature.shape:
            entry.shape.dim.add(size=size)
        _BY_TYPE.of(feature).add_domain(feature, entry)
    return text_format.MessageToString(message)


def _tfds_features(schema: Schema, layout: str) -> dict[str, object]:
    import tensorflow_datasets as tfds

    if layout == "blocks":
        count = tfds.features.Scalar(dtype=np.int64)
        return {blocks.ROWS: tfds.features.Text(doc="rows of fixed width"), blocks.COUNT: count}
    return {f.name: _BY_TYPE.of(f).tfds_feature(f, tfds.features) for f in schema.features}


def _supervised_keys(schema: Schema, layout: str) -> tuple[str, str] | None:
    """Returns what `as_supervised=True` gives: the input and the label, where there is one of each."""
    labels = schema.of_type(Label)
    if layout == "blocks" or len(schema.inputs) != 1 or not labels:
        return None
    return schema.inputs[0].name, labels[0].name


def _plain_tfds(feature: Feature, features: types.ModuleType) -> object:
    if feature.dtype == "string":
        return features.Tensor(shape=feature.shape, dtype=np.str_) if feature.shape else features.Text()
    dtype = np.dtype(feature.dtype)
    if feature.shape:
        return features.Tensor(shape=feature.shape, dtype=dtype)
    return features.Scalar(dtype=dtype)


def _label_tfds(feature: Label, features: types.ModuleType) -> object:
    if feature.classes and not feature.shape:
        return features.ClassLabel(names=feature.classes)
    return _plain_tfds(feature, features)


def _image_tfds(feature: Image, features: types.ModuleType) -> object:
    return features.Image(
        shape=(feature.height or None, feature.width or None, feature.channels),
        encoding_format=None if feature.encoding == "any" else feature.encoding,
    )


def _numeric_domain(feature: Numeric, entry: schema_pb2.Feature) -> None:
    domain = entry.float_domain if feature.dtype == "float32" else entry.int_domain
    low, high = feature.stored_range
    if low is not None:
        domain.min = type(domain.min)(low)
    if high is not None:
        domain.max = type(domain.max)(high)


def _categorical_domain(feature: Categorical, entry: schema_pb2.Feature) -> None:
    if feature.encoding == "integer":
        _add_indices(feature.size, entry, is_categorical=True)
    elif feature.vocabulary:
        entry.string_domain.value.extend(feature.vocabulary)


def _label_domain(feature: Label, entry: schema_pb2.Feature) -> None:
    if feature.classes:
        size = 2 if feature.shape else len(feature.classes)
        _add_indices(size, entry, is_categorical=not feature.shape)


def _time_domain(feature: Datetime, entry: schema_pb2.Feature) -> None:
    entry.time_domain.integer_format = schema_pb2.TimeDomain.UNIX_MICROSECONDS


def _add_indices(size: int, entry: schema_pb2.Feature, *, is_categorical: bool) -> None:
    entry.int_domain.min, entry.int_domain.max = 0, size - 1
    if is_categorical:
        entry.int_domain.is_categorical = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """How other tools describe one feature type.

    `add_domain` completes the feature's proto. `tfds_feature` gets the module `tfds.features` as an argument,
    because workers do not import TFDS.
    """

    add_domain: Callable[[Feature, schema_pb2.Feature], None] = lambda feature, entry: None
    tfds_feature: Callable[[Feature, types.ModuleType], object] = _plain_tfds


_BY_TYPE = FeatureTypeTable(
    where=__name__,
    question="what other tools get of a feature",
    entry="Metadata; its defaults say type and shape alone",
    entries={
        Numeric: Metadata(add_domain=_numeric_domain),
        Categorical: Metadata(add_domain=_categorical_domain),
        Categories: Metadata(add_domain=_categorical_domain),
        Label: Metadata(add_domain=_label_domain, tfds_feature=_label_tfds),
        Image: Metadata(
            add_domain=lambda feature, entry: entry.image_domain.SetInParent(), tfds_feature=_image_tfds
        ),
        Text: Metadata(add_domain=lambda feature, entry: entry.natural_language_domain.SetInParent()),
        Tokens: Metadata(
            add_domain=lambda feature, entry: _add_indices(
                feature.vocabulary_size, entry, is_categorical=False
            )
        ),
        Tensor: Metadata(),
        Datetime: Metadata(add_domain=_time_domain),
    },
)


# --- Leakage between splits, from the indexes beside the shards.


def check_grouped(schema: Schema) -> None:
    """Raises InputError for a label that ranks rows of groups where the schema has no group."""
    ranking = [label.name for label in schema.of_type(Label) if label.is_ranking]
    if ranking and not schema.group:
        raise InputError(
            f"schema feature '{ranking[0]}', whose task is ranking",
            received="a schema without 'group'",
            expected="the column whose equal values say which rows are ranked together",
            action='Add "group": {"column": COLUMN, "length": ROWS}, as infer_schema --group=COLUMN does.',
        )


def check_countable(policy: Policy, *, layout: str) -> None:
    """Raises InputError if leakage is to stop a conversion to blocks, whose indexes have no hash for each
    row.
    """
    if layout == "blocks" and policy.severities.get(leakage.KIND) == "error":
        raise InputError(
            f"--severity={leakage.KIND}=error",
            received="--layout=blocks",
            expected="--layout=rows, where the index has a hash of each row",
            action="Leave one of them out; beam_jobs.verify counts the leaks of a dataset of blocks.",
        )


def are_leaks_counted(plan: Plan, policy: Policy) -> bool:
    """Returns whether leaks are counted, if the policy asks for it: indexes of blocks have no hashes."""
    is_wanted = len(plan.shards) > 1 and policy.severity(leakage.KIND) != "ignore"
    return plan.layout != "blocks" or not is_wanted


def leak_anomalies(outcome: Outcome, plan: Plan, schema: Schema, policy: Policy) -> list[Anomaly]:
    """Returns the records that an earlier split has too; none where records are blocks of rows."""
    if plan.layout == "blocks" or len(plan.shards) == 1:
        return []
    shards = {split: shards_of(outcome, split) for split in plan.shards}
    return leakage.anomalies(
        {split: [functools.partial(_hashes, shard) for shard in of] for split, of in shards.items()},
        lambda leak: _examples(leak, shards[leak.split], schema),
        policy,
        rows={split: sum(shard.records for shard in of) for split, of in shards.items()},
    )


def leaked_groups(outcome: Outcome, plan: Plan, schema: Schema, policy: Policy) -> list[Anomaly]:
    """Returns how many groups of a split have rows in an earlier one, too; none where no input names one."""
    if not schema.group or not plan.has_named_splits:
        return []
    shards = {split: shards_of(outcome, split) for split in plan.shards}
    return leakage.anomalies_of_groups(
        {split: [functools.partial(_groups, shard) for shard in of] for split, of in shards.items()},
        policy,
        groups={split: sum(shard.examples for shard in of) for split, of in shards.items()},
        column=schema.group.column,
    )


_REPEATED = "repeated_file"
_LEAST_ROWS = 10  # fewer rows may be equal by chance
_SHOWN_FILES = 3


def repeated_files(outcome: Outcome, plan: Plan, policy: Policy) -> list[Anomaly]:
    """Returns the anomaly of files that have the bytes, or all the rows, of another one; none without."""
    if policy.severity(_REPEATED) == "ignore":
        return []
    repeated, sums = copies(plan.input_splits), outcome.sums
    first: dict[tuple[int, ...], str] = {}
    for file in sorted(file for file, (rows, *_) in sums.items() if rows >= _LEAST_ROWS):
        other = first.setdefault(sums[file], file)
        if file not in repeated and other != file and repeated.get(other) != file:
            repeated[file] = other
    if not repeated:
        return []
    shown = ", ".join(f"{file} (of {other})" for file, other in [*repeated.items()][:_SHOWN_FILES])
    more = f" and {len(repeated) - _SHOWN_FILES:,} more" if len(repeated) > _SHOWN_FILES else ""
    message = (
        f"copies of other files, whose rows are written twice: {shown}{more}. Remove those that are a mistake"
    )
    return [policy.anomaly(_REPEATED, split="all splits", value=len(repeated), message=message)]


def _examples(leak: Leak, shards: Sequence[WrittenShard], schema: Schema) -> list[str]:
    """Some of the leaked records, each with what it holds."""
    addresses = ((shard, record) for shard in shards for record in leak.positions(_hashes(shard)))
    return [
        f"{shard.file_name} record {record:,} ({example_text(_record(shard, record), schema)})"
        for shard, record in itertools.islice(addresses, len(leak.hashes))
    ]


def _record(shard: WrittenShard, number: int) -> bytes:
    found = _index(shard)
    start = int(found.offsets[number]) + HEADER_BYTES
    return read_bytes(shard.path, start=start, size=int(found.lengths[number]))


def _hashes(shard: WrittenShard) -> np.ndarray:
    return _index(shard).hashes


def _groups(shard: WrittenShard) -> np.ndarray:
    return np.frombuffer(read_bytes(shard.groups_path), np.uint64)


def _index(shard: WrittenShard) -> Index:
    return shards_lib.loads(read_bytes(shard.index_path), shard.index_path)


# --- The outcome by split, and whether all rows came out.


def gathered_of(outcome: Outcome, plan: Plan) -> dict[str, bytes]:
    """Returns what was gathered for each split, in the plan's order."""
    return {split: outcome.statistics[split] for split in plan.shards if split in outcome.statistics}


def statistics_of(outcome: Outcome, plan: Plan, schema: Schema) -> dict[str, SplitStatistics]:
    """Statistics by split, in the plan's order.

    Raises InputError where the statistics of a split are not what a worker of this run sent.
    """
    gathered = gathered_of(outcome, plan)
    try:
        return {split: encoding.statistics_of(one, schema) for split, one in gathered.items()}
    except DamagedError as error:
        raise InputError(
            "the statistics that came out of the run",
            received=str(error),
            expected="what the workers of this run measured",
            action="Nothing was published. Somebody else writes there: choose another directory.",
        ) from None


def shards_of(outcome: Outcome, split: str) -> list[WrittenShard]:
    return sorted((file for file in outcome.files if file.split == split), key=lambda shard: shard.number)


def check_reconciled(outcome: Outcome, plan: Plan, schema: Schema) -> None:
    """Raises InputError unless every row read was written or rejected exactly once, in the planned shards."""
    written, rejected = outcome.rows_written, outcome.rejected.rows
    planned = sorted(plan.shard_keys())
    complete = sorted((shard.split, shard.number) for shard in outcome.files) == planned
    described = sum(split.examples for split in statistics_of(outcome, plan, schema).values())
    if outcome.rows_read != written + rejected or described != written or not complete:
        raise InputError(
            "the rows that came out of the run",
            received=f"{written:,} written, {described:,} in the statistics, {rejected:,} rejected, "
            f"{len(outcome.files)} shards",
            expected=f"{outcome.rows_read:,} rows in all, {len(planned)} shards",
            action="The runner lost or repeated rows; nothing was published. Use --runner=FnApiRunner.",
        )


def check_not_empty(outcome: Outcome, plan: Plan) -> None:
    """Raises InputError if there was no row at all, or none for a split that an input or a cut-off names."""
    named = (*plan.pinned, *plan.cut)
    empty = [split for split in named if not sum(shard.rows for shard in shards_of(outcome, split))]
    if empty or not outcome.rows_read:
        raise InputError(
            f"the input of split '{empty[0]}'" if empty else "the input as a whole",
            received="0 rows",
            expected="at least one row that can be converted",
            action="Correct the cut-offs of the schema's split_by, or give --allow_empty."
            if outcome.rows_read and plan.cut
            else "Check how these files were written; if there are none today, give --allow_empty.",
        )
