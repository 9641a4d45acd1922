"""Who takes part in the input benchmark, and with which reader."""

import dataclasses
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError

# By workload and name, `module:function` in this package. The first line of a reader's docstring says how it
# reads; those in peers/ run in the peers' environment.
READERS: Mapping[str, Mapping[str, str]] = {
    "tabular": {
        "ours_rows": "reading.ours:tabular_rows",
        "ours_blocks": "reading.ours:tabular_blocks",
        "ours_mapped": "reading.ours:tabular_mapped",
        "naive": "reading.tf_peers:naive_rows",
        "batch_then_parse": "reading.tf_peers:batch_then_parse",
        "tfds": "reading.tf_peers:tfds_rows",
        "grain": "peers.grain_readers:rows",
        "streaming": "peers.streaming_readers:rows",
        "torch_mapped": "peers.torch_readers:mapped_rows",
        "read_only": "reading.floor:blocks",
    },
    "images": {
        "ours_uint8": "reading.ours:images_uint8",
        "ours_float32": "reading.ours:images_float32",
        "naive": "reading.tf_peers:naive_images",
        "tfds": "reading.tf_peers:tfds_images",
        "grain": "peers.grain_readers:images",
        "webdataset": "peers.webdataset_readers:images",
        "torch_uint8": "peers.torch_readers:uint8_images",
        "torch_float32": "peers.torch_readers:float32_images",
        "turbo_decode": "peers.turbo:images",
        "read_only": "reading.floor:images",
    },
    "tokens": {
        "ours_rows": "reading.ours:tokens_rows",
        "ours_blocks": "reading.ours:tokens_blocks",
        "ours_mapped": "reading.ours:tokens_mapped",
        "pack_online": "reading.tf_peers:pack_online",
        "tfds": "reading.tf_peers:tfds_tokens",
        "grain": "peers.grain_readers:tokens",
        "streaming": "peers.streaming_readers:tokens",
        "torch_mapped": "peers.torch_readers:mapped_tokens",
        "read_only": "reading.floor:blocks",
    },
}

# The floors are no readers of examples; which rows are packed on the fly depends on the shuffle.
WITHOUT_EPOCHS = ("read_only", "turbo_decode", "pack_online")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    workload: str
    name: str
    reader: str

    @property
    def is_peer(self) -> bool:
        """Whether it runs in the peers' environment instead of the project's."""
        return self.reader.startswith("peers.")

    @property
    def has_epochs(self) -> bool:
        """Whether it yields whole epochs of examples that can be told apart."""
        return self.name not in WITHOUT_EPOCHS


def chosen(workloads: Sequence[str], names: Sequence[str]) -> list[Case]:
    """Raises InputError for a workload or a name that there is none of; no names: all of them."""
    known = sorted({name for readers in READERS.values() for name in readers})
    _require("--workloads", workloads, list(READERS))
    _require("--names", names, known)
    return [
        Case(workload=workload, name=name, reader=reader)
        for workload in workloads
        for name, reader in READERS[workload].items()
        if not names or name in names
    ]


def _require(flag: str, received: Sequence[str], known: Sequence[str]) -> None:
    for one in received:
        if one not in known:
            raise InputError(
                flag, received=one, expected=f"some of {', '.join(known)}", action="Correct the name."
            )
