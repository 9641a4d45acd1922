"""Avro object container files, byte by byte: a header, then blocks of any records."""

import io

import fastavro

SYNC = b"S" * 16  # ends the header, and each block


def avro_header(schema: str, codec: bytes = b"null") -> bytes:
    """A container's header; blocks follow."""

    def text(data: bytes) -> bytes:
        return zigzag(len(data)) + data

    pairs = text(b"avro.schema") + text(schema.encode()) + text(b"avro.codec") + text(codec)
    return b"Obj\x01" + zigzag(2) + pairs + zigzag(0) + SYNC


def zigzag(value: int) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "long", value)
    return file.getvalue()
