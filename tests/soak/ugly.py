"""Takes raw data as people have them through infer_schema and convert, following what these advise.

Faults: a row that is neither stored nor rejected, a cell that changed without a word, advice that fails.
"""

import dataclasses
import functools
import json
import math
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pipeline.data.schema.times import NOT_A_TIME
from tests.shared import forked
from tests.soak.damaged import answer
from tests.soak.harness import Row, Soak
from tests.soak.ugly_kinds import KEY, KINDS, LABEL, Moment, Ugly

_FLAG = re.compile(r"'--([a-z_]+)=[^']*'|--([a-z_]+)=(?:'[^']*'|[^\s'])+")
_COMMAND = re.compile("Run (.* > fixed.csv) and read that")
_OF_READING = ("delimiter", "encoding", "header", "quote", "escape", "column_names", "format")
_OF_INFER = ("missing", "not_missing", "ignore", "date_format", "first_year")
_ADVISED = (*_OF_READING, *_OF_INFER, "max_rejected_fraction", "max_unlabelled_fraction")
_TRIED = 2  # pieces of advice that the owner would not follow, tried by themselves
_TURNS = 5


@dataclasses.dataclass
class _Answer:
    ended: forked.Ended
    flags: list[str]  # that the command advises

    @property
    def said(self) -> str:
        return self.ended.stdout + self.ended.stderr


def faults(soak: Soak, *, kind: str) -> Iterator[str]:
    """Draws `soak.count` cases of a kind; each fault names the number that draws it again."""
    for number in range(soak.count):
        folder = soak.folder / str(number)
        folder.mkdir()
        case = KINDS[kind](soak.draw(number), folder)
        found = [f"{number}: {fault}" for fault in _case(case, folder)]
        if not found:
            shutil.rmtree(folder)
        yield from found


def _case(case: Ugly, folder: pathlib.Path) -> Iterator[str]:
    """Yields what is wrong with a case. What convert notes is followed too, from infer_schema on."""
    run = _Commands(folder=folder, location=case.location)
    flags = list(case.flags)
    if case.mend:
        name, mend = case.mend
        refused = run.infer(*flags)
        if not refused.ended.code or name not in refused.said:
            yield f"{name} is not named: {_end(refused)}"
        mend()
    for _ in range(_TURNS):
        inferred, flags = _followed(run.infer, case.owner, flags)
        if inferred.ended.code and run.mends_input(inferred.said):
            continue
        if inferred.ended.code:
            yield f"infer_schema, with {flags}: {_end(inferred)}"
            return
        _set_zone(folder / "schema.json", case.zone)
        reading = [flag for flag in flags if flag[2:].partition("=")[0] in _OF_READING]
        converted, _ = _followed(run.convert, lambda flag: "max_rejected" in flag, reading)
        if converted.ended.code:
            yield f"convert, with {reading}: {_end(converted)}"
            return
        late = [flag for flag in converted.flags if case.owner(flag) and flag not in flags]
        if not late:
            break
        flags += late
    yield from wrong(case, folder / "out" / "1", json.loads((folder / "schema.json").read_text()))
    of_convert = [flag for flag in inferred.flags if flag.startswith("--max_")]
    for flag in [flag for flag in inferred.flags if flag not in of_convert and not case.owner(flag)][:_TRIED]:
        if (again := run.infer(*flags, flag)).ended.code:
            yield f"the advice {flag} fails: {_end(again)}"


@dataclasses.dataclass
class _Commands:
    """infer_schema and convert of what is at `location`."""

    folder: pathlib.Path
    location: pathlib.Path

    def infer(self, *flags: str) -> _Answer:
        return self._answer(
            "infer_schema", f"--label={LABEL}", "--overwrite", f"--output={self._schema}", *flags
        )

    def convert(self, *flags: str) -> _Answer:
        output = self.folder / "out" / "1"
        shutil.rmtree(output, ignore_errors=True)
        return self._answer("convert", f"--schema={self._schema}", f"--output={output}", *flags)

    def mends_input(self, said: str) -> bool:
        """Runs the command that a message advises, and takes what it wrote from then on."""
        if not (found := _COMMAND.search(said)):
            return False
        subprocess.run(found[1], shell=True, check=True, cwd=self.folder)
        self.location = self.folder / "fixed.csv"
        return True

    @property
    def _schema(self) -> pathlib.Path:
        return self.folder / "schema.json"

    def _answer(self, command: str, *flags: str) -> _Answer:
        ended = answer([f"beam_jobs.{command}", f"--input={self.location}", *flags], self.folder / "output")
        return _Answer(ended=ended, flags=advised(ended.stdout + ended.stderr))


def advised(said: str) -> list[str]:
    """Returns the flags with their values that a command printed, as a shell would hand them on."""
    found = [found for found in _FLAG.finditer(said) if (found[1] or found[2]) in _ADVISED]
    flags = [shlex.split(flag[0] if flag[1] else flag[0].rstrip(".,;:)"))[0] for flag in found]
    return list(dict.fromkeys(flags))


def _followed(
    run: Callable[..., _Answer], owner: Callable[[str], bool], flags: Sequence[str]
) -> tuple[_Answer, list[str]]:
    """Runs a command until it advises nothing new that its owner would do; returns the last flags too."""
    flags = list(flags)
    for _ in range(_TURNS):
        answer = run(*flags)
        more = [flag for flag in answer.flags if owner(flag) and flag not in flags]
        if not more:
            break
        flags += more
    return answer, flags


def _end(answer: _Answer) -> str:
    return f"rc {answer.ended.code}, {(answer.ended.stderr or answer.ended.stdout).strip()[-400:]}"


def _set_zone(schema: pathlib.Path, zone: str) -> None:
    document = json.loads(schema.read_text())
    for feature in document["features"]:
        if zone and feature["kind"] == "datetime":
            feature["zone"] = zone
    schema.write_text(json.dumps(document))


def wrong(case: Ugly, dataset: pathlib.Path, schema: Mapping) -> Iterator[str]:
    """Yields what is not accounted for, or was changed without a word."""
    manifest = json.loads((dataset / "manifest.json").read_text())
    rejected = manifest["rows_rejected"]
    written = sum(shard["rows"] for shards in manifest["splits"].values() for shard in shards)
    if written + rejected != case.rows:
        yield f"{written} rows written and {rejected} rejected, of {case.rows}"
    features = {feature["name"]: feature for feature in schema["features"]}
    rows = {row[KEY][0]: row for row in _examples(dataset)}
    if rows.keys() != case.stored.keys():
        lost, odd = case.stored.keys() - rows.keys(), rows.keys() - case.stored.keys()
        yield f"{len(lost)} good rows are not stored ({sorted(lost)[:3]}), {len(odd)} bad ones are"
    changed = [
        f"{name}: {cell!r} as {rows[key].get(name)}"
        for key in rows.keys() & case.stored.keys()
        for name, cell in case.stored[key].items()
        if name in features and not _is_same(rows[key].get(name, []), cell, features[name])
    ]
    if changed:
        yield f"{len(changed)} cells changed, such as {sorted(changed)[:3]}"
    if unknown := {name for row in case.stored.values() for name in row} - {
        *features,
        *schema.get("ignore", {}),
    }:
        yield f"{sorted(unknown)} are neither stored nor ignored"
    twice = json.loads((dataset / "conversion.json").read_text())["shown_twice"]
    if sum(twice.values()) != case.twice:
        yield f"{twice} times are told as shown twice, of {case.twice}"


def _is_same(stored: Sequence, cell: object, feature: Mapping) -> bool:
    if cell is None or cell == "":
        return not stored or stored[0] in (b"", NOT_A_TIME) or stored[0] != stored[0]
    if isinstance(cell, Moment):
        return list(stored) == [cell.microseconds]
    if feature["kind"] == "label":
        return feature["classes"][stored[0]] == cell
    if stored and isinstance(stored[0], bytes):
        return stored[0].decode() in (str(cell), f"{cell:g}" if isinstance(cell, float) else "")
    if feature.get("number") == "int64":
        return list(stored) == [cell]
    number = float(cell) - feature.get("offset", 0.0)
    return bool(stored) and math.isclose(stored[0], np.float32(number), rel_tol=1e-6, abs_tol=1e-6)


def _examples(dataset: pathlib.Path) -> Iterator[dict[str, list]]:
    """The stored records, as TensorFlow's protos read them."""
    from tensorflow.core.example import example_pb2

    for path in sorted(dataset.glob("*.tfrecord-*")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            example = example_pb2.Example.FromString(data[place + 12 : place + 12 + length])
            place += 16 + length
            yield {
                name: list(getattr(feature, feature.WhichOneof("kind")).value)
                if feature.WhichOneof("kind")
                else []
                for name, feature in example.features.feature.items()
            }


ROWS = tuple(
    Row(
        name=f"ugly/{kind}",
        sentence=f"Raw data with {kind} as people have them: no row is lost, no cell changes in silence.",
        faults=functools.partial(faults, kind=kind),
    )
    for kind in KINDS
)
