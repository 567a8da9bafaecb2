"""Files of tables that claim what they do not hold are refused, and cost little."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

pa = pytest.importorskip("pyarrow")

TEXTS = ["abcdefgh", None, "ijklmnop", "qrstuvwx", "yyyyyyyy"]
VIEWS = [b"a" * 20, b"b" * 20, b"c" * 20]
LISTS = [[1, 2], None, [3, 4], [5, 6], [7, 8]]


def offsets(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


GOOD = offsets(0, 8, 8, 16, 24, 32)


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize(
    ("values", "kind", "good", "bad"),
    [
        (TEXTS, "string", GOOD, offsets(0, 8, 8, 2_000_000_000, 24, 32)),
        (TEXTS, "binary", GOOD, offsets(0, 8, -1_000_000, 16, 24, 32)),
        (VIEWS, "binary_view", b"bbbb" + offsets(0, 20), b"bbbb" + offsets(5, 20)),
        (VIEWS, "binary_view", b"bbbb" + offsets(0, 20), b"bbbb" + offsets(0, 4096)),
        (LISTS, "list", offsets(0, 2, 2, 4, 6, 8), offsets(0, 2, 2, 2_000_000_000, 6, 8)),
    ],
)
def test_arrow_offsets_beyond_the_file_are_refused(
    tmp_path: Path, values: Any, kind: str, good: bytes, bad: bytes, form: str
) -> None:
    held = pa.array(values, pa.list_(pa.int64()) if kind == "list" else getattr(pa, kind)())
    table = pa.table({"s": held})
    source = tmp_path / "f.arrow"
    with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(source, table.schema) as writer:
        writer.write_table(table)
    data = source.read_bytes()
    assert good in data
    source.write_bytes(data.replace(good, bad))
    with pytest.raises(ValueError, match=r"f\.arrow: cannot be read as arrow"):
        tfs.convert(str(source), str(tmp_path / "train"))


@pytest.mark.parametrize("error", [pa.ArrowIndexError, pa.ArrowMemoryError])
def test_all_errors_of_arrow_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    from tfio_store.tables.formats import table_files

    def read(*_: Any) -> Any:
        raise error("2 of 1")

    (tmp_path / "f.arrow").write_bytes(b"ARROW1")
    monkeypatch.setitem(table_files._READERS, "arrow", read)
    with pytest.raises(ValueError, match=r"f\.arrow: cannot be read as arrow: 2 of 1"):
        tfs.convert(str(tmp_path / "f.arrow"), str(tmp_path / "train"))


MEASURED = """
import resource, sys
import pyarrow.csv
import tfio_store as tfs
from tfio_store.tables.formats import table_files
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    tfs.convert(sys.argv[1], sys.argv[2])
except ValueError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("count", [1_100, 400_000])
def test_a_small_csv_of_many_columns_takes_no_memory(tmp_path: Path, count: int) -> None:
    source = tmp_path / "a.csv.gz"
    source.write_bytes(gzip.compress(b"," * count + b"\n", 9))
    command = [sys.executable, "-c", MEASURED, str(source), str(tmp_path / "t")]
    told, used = subprocess.check_output(command, text=True).splitlines()
    assert told.endswith("a.csv.gz: cannot be read as csv: its header has more than 1,024 columns, "
                         "too many for its size")  # fmt: skip
    assert int(used) < 64


def test_a_csv_of_many_columns(tmp_path: Path) -> None:
    names = [f'"{i},{i}\n"' for i in range(1000)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * 1000) + "\n")
    tfs.convert(str(tmp_path / "a.csv"), str(tmp_path / "t"))
    assert len(tfs.infer_schema(str(tmp_path / "t"))) == 1000
    (tmp_path / "b.csv").write_text(",".join(map(str, range(1 << 17))) + "\n")
    with pytest.raises(ValueError, match=r"b\.csv: .* more than 65,536 columns"):
        tfs.convert(str(tmp_path / "b.csv"), str(tmp_path / "u"))
    (tmp_path / "c.csv").write_bytes(b'"' + b"a" * (17 << 20) + b'"\n')
    with pytest.raises(ValueError, match=r"c\.csv: .* header has more than 16,777,216 bytes"):
        tfs.convert(str(tmp_path / "c.csv"), str(tmp_path / "u"))


@pytest.mark.parametrize("nested", [False, True])
def test_a_line_of_json_with_many_fields(tmp_path: Path, nested: bool) -> None:
    line = "{" + ",".join(f'"{i}":1' for i in range(70_000)) + "}"
    (tmp_path / "a.jsonl").write_text('{"a":1}\n' + (f'{{"a":{line}}}' if nested else line) + "\n")
    with pytest.raises(ValueError, match="line 2: 70,000 fields, and at most 65,536 are read"):
        tfs.convert(str(tmp_path / "a.jsonl"), str(tmp_path / "t"))


def test_lines_of_json_with_many_fields_together(tmp_path: Path) -> None:
    lines = ("{" + ",".join(f'"{n}.{i}":1' for i in range(35_000)) + "}\n" for n in range(2))
    (tmp_path / "a.jsonl").write_text("".join(lines))
    with pytest.raises(ValueError, match=r"a\.jsonl: .*more than 65,536 columns"):
        tfs.convert(str(tmp_path / "a.jsonl"), str(tmp_path / "t"))


@pytest.mark.parametrize(
    "text",
    ["{'descr': '<f4',, 'fortran_order'", "{'descr': 'f4,,'", "{[]: 1", "'", "(" * 400, "{1: 2",
     "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'shape2': 0, 1: 2}", "1L L (", ""],
)  # fmt: skip
@pytest.mark.parametrize("whole", ["", ", 'fortran_order': False, 'shape': (3,)}"])
def test_hostile_headers_of_arrays(tmp_path: Path, text: str, whole: str) -> None:
    header = (text + whole).encode()
    data = b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + bytes(12)
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.npy: cannot be read as numpy"):
        tfs.convert(str(tmp_path / "a.npy"), str(tmp_path / "t"))
