"""Small raw files whose rows break what a parser takes for granted."""

import json
import zlib

from pipeline.data.dataset import tfrecord
from tests.shared.avro import SYNC, avro_header, zigzag
from tests.soak import samples
from tests.soak.damaged import Hostile, raw_commands

_HEADER = b"age,city,bought\n"
_ROW = b"30,Bern,y\n"
_OBJECT = b'{"age": 30, "city": "Bern", "bought": "y"}\n'


_CSV = {
    "empty": b"",
    "only_bom": b"\xef\xbb\xbf",
    "only_nul": b"\0" * 5_000,
    "only_line_ends": b"\r\n" * 100,
    "only_quotes": b'"' * 999,
    "open_quote": _HEADER + b'30,"Bern,y\n' + _ROW * 50,
    "quote_inside": _HEADER + b'30,Be"rn",y\n' + _ROW,
    "nul_in_cell": _HEADER + b"30,Be\0rn,y\n" + _ROW,
    "nul_in_header": b"age,ci\0ty,bought\n" + _ROW,
    "cr_alone": (_HEADER + _ROW * 9).replace(b"\n", b"\r"),
    "header_of_200_kb": b"age,city,bought," + b"x" * 200_000 + b"\n" + _ROW[:-1] + b",1\n",
    "cell_of_200_kb": _HEADER + b"30," + b"x" * 200_000 + b",y\n" + _ROW,
    "header_twice": b"age,age,bought\n" + _ROW,
    "header_blank": b" , ,\n" + _ROW,
    "header_commas": b",,,\n",
    "header_controls": b"a\x1bge,\x07city,bought\n" + _ROW,
    "header_formula": b'=cmd|"/c calc"!A1,city,bought\n' + _ROW,
    "header_path": b"../../age,/etc/passwd,bought\n" + _ROW,
    "short_row": _HEADER + b"30\n" + _ROW,
    "long_row": _HEADER + b"30,Bern,y" + b",1" * 10_000 + b"\n" + _ROW,
    "not_utf8": _HEADER + b"30,Z\xfcrich,y\n" + _ROW,
    "surrogates": _HEADER + b"30,\xed\xa0\x80,y\n" + _ROW,
    "overlong_utf8": _HEADER + b"30,\xc0\xaf,y\n" + _ROW,
    "utf16_without_bom": (_HEADER + _ROW * 9).decode().encode("utf-16-le"),
    "utf32": (_HEADER + _ROW * 9).decode().encode("utf-32"),
    "binary": zlib.compress(_ROW * 50),
    "ansi_escapes": _HEADER + b"\x1b[2J\x1b]0;owned\x07,Bern,y\n" + _ROW,
    "direction_marks": _HEADER + "30,\u202eevil\u202c,y\n".encode() + _ROW,
    "number_of_5000_digits": _HEADER + b"9" * 5_000 + b",Bern,y\n" + _ROW,
    "number_of_exponent": _HEADER + b"1e999999999,Bern,y\n" + _ROW,
    "numbers_odd": _HEADER + "0x10,a,y\n1_000,a,y\n٣,a,y\n+-3,a,y\n.,a,y\nnan,a,y\n-inf,a,y\n".encode(),
    "infinities": _HEADER + b"inf,Bern,y\n-inf,Bern,n\n" * 20,
}
_JSONL = {
    "empty": b"",
    "blank": b"   \n\n\t\n",
    "scalars": b'1\n"x"\nnull\ntrue\n',
    "arrays": b"[1, 2]\n[]\n[[]]\n",
    "empty_objects": b"{}\n" * 30,
    "keys_twice": b'{"age": 1, "age": "x", "bought": "y"}\n' + _OBJECT,
    "key_empty": b'{"": 1, "age": 30, "bought": "y"}\n' + _OBJECT,
    "key_with_dot": b'{"home.city": 1, "home": {"city": 2}, "bought": "y"}\n' + _OBJECT,
    "surrogate_in_value": b'{"age": 30, "city": "\\ud800", "bought": "y"}\n' + _OBJECT,
    "surrogate_in_key": b'{"age": 30, "\\udfff": "x", "bought": "y"}\n' + _OBJECT,
    "surrogate_in_label": b'{"age": 30, "city": "Bern", "bought": "\\ud83d"}\n' + _OBJECT,
    "surrogate_in_list": b'{"age": 30, "city": "Bern", "scores": ["\\udc00"], "bought": "y"}\n',
    "nul_in_value": b'{"age": 30, "city": "\\u0000", "bought": "y"}\n' + _OBJECT,
    "nul_in_key": b'{"a\\u0000ge": 30, "bought": "y"}\n' + _OBJECT,
    "integer_of_5000_digits": b'{"age": ' + b"9" * 5_000 + b', "bought": "y"}\n' + _OBJECT,
    "integer_of_2_64": b'{"age": 18446744073709551616, "city": "Bern", "bought": "y"}\n' + _OBJECT,
    "float_beyond": b'{"age": 1e999, "city": "Bern", "bought": "y"}\n' + _OBJECT,
    "nan": b'{"age": NaN, "city": "Bern", "bought": "y"}\n{"age": -Infinity, "bought": "n"}\n',
    "deep_200000": b'{"age": ' + b"[" * 200_000 + b"]" * 200_000 + b', "bought": "y"}\n' + _OBJECT,
    "deep_objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n" + _OBJECT,
    "deep_900": b'{"a":' * 900 + b"1" + b"}" * 900 + b"\n" + _OBJECT,
    "not_closed": b'{"age": 30, "city": "Bern"\n' + _OBJECT,
    "two_on_a_line": b'{"age": 30} {"age": 31}\n' + _OBJECT,
    "bom": b"\xef\xbb\xbf" + _OBJECT,
    "not_utf8": b'{"age": 30, "city": "Z\xfcrich", "bought": "y"}\n' + _OBJECT,
    "utf16": (_OBJECT * 9).decode().encode("utf-16"),
    "key_of_200_kb": b'{"' + b"k" * 200_000 + b'": 1, "age": 3, "bought": "y"}\n' + _OBJECT,
    "types_change": b'{"age": 1, "bought": "y"}\n{"age": "x", "bought": 1}\n{"age": [1]}\n{"age": {}}\n',
    "python_tags": b'{"age": {"__class__": "os.system", "$ref": "/etc/passwd"}, "bought": "y"}\n' + _OBJECT,
}
_PARQUET = samples.content("data.parquet")
_PARQUETS = {
    "empty": b"",
    "magic_only": b"PAR1PAR1",
    "footer_huge": _PARQUET[:-8] + b"\xff\xff\xff\x7fPAR1",
    "footer_negative": _PARQUET[:-8] + b"\xff\xff\xff\xffPAR1",
    "footer_zero": _PARQUET[:-8] + b"\0\0\0\0PAR1",
    "encrypted": _PARQUET[:-4] + b"PARE",
    "no_end": _PARQUET[:-4],
    "data_zeroed": _PARQUET[:4] + bytes(600) + _PARQUET[604:],
    "csv_inside": _HEADER + _ROW * 30,
}


_AVRO = samples.content("data.avro")
_LONG = json.dumps({"type": "record", "name": "r", "fields": [{"name": "age", "type": "long"}]})
_TEXT = json.dumps({"type": "record", "name": "r", "fields": [{"name": "age", "type": "string"}]})
_SELF = '{"type": "record", "name": "r", "fields": [{"name": "age", "type": ["null", "r"]}]}'
_AVROS = {
    "empty": b"",
    "magic_only": b"Obj\x01",
    "schema_no_json": avro_header("{"),
    "schema_scalar": avro_header("7"),
    "schema_of_itself": avro_header(_SELF) + zigzag(1) + zigzag(400) + b"\x02" * 400 + SYNC,
    "schema_unknown_type": avro_header(_LONG.replace("long", "widget")),
    "schema_deep": avro_header('{"type":"array","items":' * 5_000 + '"long"' + "}" * 5_000),
    "codec_unknown": avro_header(_LONG, b"lzma9000"),
    "codec_broken": avro_header(_LONG, b"deflate") + zigzag(3) + zigzag(3) + b"abc" + SYNC,
    "count_negative": avro_header(_LONG) + zigzag(-5) + zigzag(1) + b"\x02" + SYNC,
    "count_huge": avro_header(_LONG) + zigzag(1 << 60) + zigzag(1) + b"\x02" + SYNC,
    "length_huge": avro_header(_LONG) + zigzag(1) + zigzag(1 << 60) + b"\x02" + SYNC,
    "length_negative": avro_header(_LONG) + zigzag(1) + zigzag(-9) + b"\x02" + SYNC,
    "text_of_2_60": avro_header(_TEXT) + zigzag(1) + zigzag(9) + zigzag(1 << 60) + SYNC,
    "sync_wrong": _AVRO[:-16] + b"X" * 16,
}
_RECORD = samples.content("data.tfrecord")


def _claiming(length: int) -> bytes:
    """A frame whose length, checksum right, is not that of what follows."""
    return tfrecord._header(length) + b"x" * 40


_TFRECORDS = {
    "empty": b"",
    "length_of_2_62": _claiming(1 << 62),
    "length_of_2_63": _claiming((1 << 64) - 1),
    "length_of_8_gb": _RECORD + _claiming(8 << 30),
    "length_zero": tfrecord.frame([b""]),
    "lengths_zero": tfrecord.frame([b""] * 1_000),
    "no_example": tfrecord.frame([b"\xff" * 30]),
    "varint_endless": tfrecord.frame([b"\x0a" + b"\xff" * 300]),
    "lengths_inside_huge": tfrecord.frame([b"\x0a\xff\xff\xff\xff\x0f" + b"x" * 30]),
    "groups_deep": tfrecord.frame([b"\x0b" * 50_000]),
    "half_a_header": _RECORD[:7],
    "text": b"just text, no record\n" * 30,
}
_TXT = {
    "empty": b"",
    "nul": b"\0" * 9_999,
    "not_utf8": b"Z\xfcrich\n" * 20,
    "no_line_end": b"x" * 100_000,
    "controls": bytes(range(32)) * 50,
    "cr_alone": b"one\rtwo\r" * 30,
}
_FAMILIES = {
    "csv": _CSV,
    "jsonl": _JSONL,
    "parquet": _PARQUETS,
    "avro": _AVROS,
    "tfrecord": _TFRECORDS,
    "txt": _TXT,
}
CASES = tuple(
    Hostile(
        name=f"rows/{name}.{ending}",
        write=lambda folder, sound, path=f"data.{ending}", data=data: (folder / path).write_bytes(data),
        commands=raw_commands(f"data.{ending}"),
    )
    for ending, files in _FAMILIES.items()
    for name, data in files.items()
)
