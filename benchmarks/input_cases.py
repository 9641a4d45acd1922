"""Who takes part in the input benchmark: which reader, of which workload, in which form."""

import dataclasses
from collections.abc import Iterator, Sequence

from pipeline.data.errors import InputError

WORKLOADS = ("tabular", "images", "tokens")
_PEERS = "benchmarks.peers."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """`reader` of `module` yields batches of `workload`; `form` says how it reads, in one line."""

    workload: str
    name: str
    module: str
    reader: str
    form: str
    has_epochs: bool = True  # whether it yields whole epochs of examples that can be told apart

    @property
    def is_peer(self) -> bool:
        """Whether it runs in the peers' environment instead of the project's."""
        return self.module.startswith(_PEERS)


def _of(workload: str, module: str, *rows: tuple[str, str, str], has_epochs: bool = True) -> Iterator[Case]:
    for name, reader, form in rows:
        yield Case(
            workload=workload, name=name, module=module, reader=reader, form=form, has_epochs=has_epochs
        )


_OURS, _TF, _FLOOR = "benchmarks.input_ours", "benchmarks.input_tf_peers", "benchmarks.input_floor"

CASES = (
    *_of(
        "tabular",
        _OURS,
        ("ours_rows", "tabular_rows", "dataset `rows`: global order of record groups, parsed by the batch"),
        ("ours_blocks", "tabular_blocks", "dataset `blocks`: blocks permuted, rows in a window of blocks"),
        ("ours_mapped", "tabular_mapped", "dataset `blocks`, mapped into memory: global permutation of rows"),
    ),
    *_of(
        "tabular",
        _TF,
        ("naive", "naive_rows", "TFRecordDataset → parse one → shuffle 10,000 → batch"),
        ("batch_then_parse", "batch_then_parse", "interleave → shuffle 10,000 → batch → parse the batch"),
        ("tfds", "tfds_rows", "as_dataset(shuffle_files=True) → shuffle 10,000 → batch"),
    ),
    *_of(
        "tabular",
        _PEERS + "grain_readers",
        (
            "grain",
            "rows",
            "ArrayRecord, a row a record: a permuted batch read by __getitems__, decoded at once",
        ),
    ),
    *_of(
        "tabular",
        _PEERS + "streaming_readers",
        ("streaming", "rows", "MDS, its own shuffle, samples stacked in the collate function, 2 workers"),
    ),
    *_of(
        "tabular",
        _PEERS + "torch_readers",
        ("torch_mapped", "mapped_rows", "numpy.memmap of packed rows, a permuted batch gathered at once"),
    ),
    *_of(
        "tabular",
        _FLOOR,
        ("read_only", "rows", "the files of dataset `blocks` read to the end; a floor, not a reader"),
        has_epochs=False,
    ),
    *_of(
        "images",
        _OURS,
        ("ours_uint8", "images_uint8", "dataset `rows`, decoded as cropped, stateless augmentation, uint8"),
        ("ours_float32", "images_float32", "the same, normalised on the host: float32"),
    ),
    *_of(
        "images",
        _TF,
        ("naive", "naive_images", "parse one → decode all → crop, resize, flip, normalise: float32"),
        ("tfds", "tfds_images", "SkipDecoding, then decode_and_crop_jpeg, resize, flip, normalise: float32"),
    ),
    *_of(
        "images",
        _PEERS + "grain_readers",
        (
            "grain",
            "images",
            "ArrayRecord, simplejpeg + cv2, 2 workers, normalised a batch at a time: float32",
        ),
    ),
    *_of(
        "images",
        _PEERS + "webdataset_readers",
        ("webdataset", "images", "tar files, simplejpeg + cv2, 2 workers, the parent normalises: float32"),
    ),
    *_of(
        "images",
        _PEERS + "torch_readers",
        ("torch_uint8", "uint8_images", "numpy.memmap of all JPEGs, simplejpeg + cv2, 2 workers: uint8"),
        ("torch_float32", "float32_images", "the same; the parent normalises each batch with torch: float32"),
    ),
    *_of(
        "images",
        _PEERS + "turbo",
        ("turbo_decode", "images", "libjpeg-turbo's decode of the whole JPEG, nothing else; a floor"),
        has_epochs=False,
    ),
    *_of(
        "images",
        _FLOOR,
        ("read_only", "images", "the files of dataset `rows` read to the end; a floor, not a reader"),
        has_epochs=False,
    ),
    *_of(
        "tokens",
        _OURS,
        ("ours_rows", "tokens_rows", "dataset `rows` of packed rows: global order, parsed by the batch"),
        ("ours_blocks", "tokens_blocks", "dataset `blocks` of packed rows: rows in a window of blocks"),
        ("ours_mapped", "tokens_mapped", "dataset `blocks`, mapped into memory: global permutation of rows"),
    ),
    *_of(
        "tokens",
        _TF,
        ("pack_online", "pack_online", "documents → shuffle 10,000 → 1,024 parsed and packed at once"),
        has_epochs=False,  # which rows there are depends on the shuffle
    ),
    *_of("tokens", _TF, ("tfds", "tfds_tokens", "packed rows: as_dataset → shuffle 10,000 → batch")),
    *_of(
        "tokens",
        _PEERS + "grain_readers",
        (
            "grain",
            "tokens",
            "ArrayRecord, a packed row a record: a permuted batch read by __getitems__",
        ),
    ),
    *_of(
        "tokens",
        _PEERS + "streaming_readers",
        ("streaming", "tokens", "MDS of packed rows, its own shuffle, samples stacked, 2 workers"),
    ),
    *_of(
        "tokens",
        _PEERS + "torch_readers",
        ("torch_mapped", "mapped_tokens", "numpy.memmap of packed uint16, a permuted batch gathered at once"),
    ),
    *_of(
        "tokens",
        _FLOOR,
        ("read_only", "rows", "the files of dataset `blocks` read to the end; a floor, not a reader"),
        has_epochs=False,
    ),
)


def chosen(workloads: Sequence[str], names: Sequence[str]) -> list[Case]:
    """Raises InputError for a workload or a name that there is none of; no names: all of them."""
    _require("--workloads", workloads, WORKLOADS)
    _require("--names", names, sorted({case.name for case in CASES}))
    return [case for case in CASES if case.workload in workloads and (not names or case.name in names)]


def _require(flag: str, received: Sequence[str], known: Sequence[str]) -> None:
    for one in received:
        if one not in known:
            raise InputError(
                flag, received=one, expected=f"some of {', '.join(known)}", action="Correct the name."
            )
