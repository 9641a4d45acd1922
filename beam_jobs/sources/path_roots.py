"""A source whose tables may name images in more folders than their own."""

import dataclasses
from collections.abc import Iterable, Iterator

from beam_jobs.sources.pieces.source import Input, Piece, RawRows, Source


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithPathRoots:
    """What `source` reads, with `roots` as folders that paths in its cells may lead into."""

    source: Source
    roots: tuple[str, ...]

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return self.source.pieces(inputs)

    def read(self, piece: Piece) -> Iterator[RawRows]:
        for raw in self.source.read(piece):
            yield dataclasses.replace(raw, path_roots=self.roots)
