"""What to change in a pipeline that is too slow, by the stage that limits it and by what that stage lacks."""

import dataclasses
from collections.abc import Iterator

from pipeline.data.dataset.selection import Selection
from pipeline.data.feed.certificate import Certificate
from pipeline.data.feed.scaling import Line

_SMALL_SHARD_BYTES = 8 << 20  # 8 MiB: below, opening files takes much of the time of reading them

# By the name of the stage; other stages get the advice that holds for any.
_OF_STAGE = {
    "from disk": "copy the files to a disk of this host before training, or have fewer bytes an example",
    "read": "convert tables with --layout=blocks, which local files map into memory instead of reading",
    "parse": "convert with --layout=blocks: fixed-width rows need no parsing",
    "decode": "store the images at the size that training needs (a JPEG takes time by its pixels), as JPEG "
    "rather than PNG, and crop while decoding with --config.augmentation.crop_area",
    "augment": "leave out rotation, zoom and colour, or do them in the model, on the accelerator",
    "preprocess": "list vocabularies in the schema instead of hashing, and tokenise text when converting",
    "batch": "make examples smaller: images as uint8 in place of float32, normalised on the accelerator",
    "copy": "make batches smaller: images as uint8 in place of float32, normalised on the accelerator",
}
_OF_ANY_STAGE = "move its work into the conversion, or onto the accelerator"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Files:
    """What is known of the files that the pipeline reads."""

    shards: int
    mean_bytes: float

    @property
    def are_small(self) -> bool:
        return self.shards > 1 and self.mean_bytes < _SMALL_SHARD_BYTES


def files_of(selection: Selection) -> Files:
    return Files(shards=len(selection.shards.paths), mean_bytes=float(selection.shards.bytes.mean()))


def advice(certificate: Certificate, files: Files | None = None) -> tuple[str, ...]:
    """Sentences, the most useful one first; none if training is fed."""
    if certificate.is_fed:
        return ()
    return tuple(_sentences(certificate, files))


def _sentences(certificate: Certificate, files: Files | None) -> Iterator[str]:
    line = certificate.limiting
    if certificate.cold_is_costly:
        yield _what_starting_takes(line, certificate.together)
    else:
        yield _what_it_lacks(certificate, line)
        yield from _what_helps(line, files)
    there = certificate.demand.slice.host_cores or certificate.host.cores
    if certificate.cores_needed and certificate.cores_needed > there:
        yield f"Or take hosts with {certificate.cores_needed:,} cores, more hosts, or a larger model."


def _what_starting_takes(cold: Line, together: Line) -> str:
    return (
        f"{cold.name}: takes {cold.cpu_us:,.0f} µs of the cores for every example, where the page cache "
        f"takes {together.cpu_us:,.1f}: it waits for no disk. Of few files, that is the start of the "
        "pipeline, which a training pays once: measure more data, or leave out --cold."
    )


def _what_helps(line: Line, files: Files | None) -> Iterator[str]:
    if line.name == "read" and files and files.are_small:
        yield (
            f"read: {files.shards:,} shards of {files.mean_bytes / 1024:,.0f} KiB; convert to fewer of them, "
            "of 100 MiB or more."
        )
    yield f"{line.name}: {_OF_STAGE.get(line.name, _OF_ANY_STAGE)}."


def _what_it_lacks(certificate: Certificate, line: Line) -> str:
    bound = certificate.bound(line)
    if bound == "waiting":
        is_disk = line.name == "read" or line is certificate.cold
        source = "storage that is closer or faster: a local disk" if is_disk else "less waiting"
        return (
            f"{line.name}: waits at {line.mb_per_s:,.1f} MB/s with {line.wanted_cores:.1f} cores in use; "
            f"more cores do not help, {source} does."
        )
    if bound == "calls":
        at_once = certificate.scaling.at_once(line)
        own = "; let it run in parallel (no Python function, generator or map of one thread)"
        return (
            f"{line.name}: runs in {at_once:.2g} thread{'s' * (at_once != 1)} at most, so more cores do not "
            f"help{'' if line.name in _OF_STAGE else own}."
        )
    return f"{line.name}: takes {line.cpu_us:,.1f} µs of the cores for every example."
