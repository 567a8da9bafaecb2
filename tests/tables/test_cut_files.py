"""Files of other formats that were cut or damaged are errors, never fewer rows."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import tfio_store as tfs

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

COUNT = 20


def tar_bytes(count: int = COUNT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for i in range(count):
            member = tarfile.TarInfo(f"{i:04d}.bin")
            member.size = 700
            tar.addfile(member, io.BytesIO(bytes([i]) * 700))
    return made.getvalue()


MEMBER = 512 + 1024
"""A header, and content in whole blocks."""


def arrow_stream(count: int = 5) -> tuple[bytes, list[int]]:
    """A stream, and where each of its batches ends."""
    made, ends = io.BytesIO(), []
    table = pa.table({"a": range(10)})
    with pa.ipc.new_stream(made, table.schema) as writer:
        for _ in range(count):
            writer.write_table(table)
            ends.append(made.tell())
    return made.getvalue(), ends


def refused(source: Path, data: bytes, text: str) -> None:
    source.write_bytes(data)
    with pytest.raises(ValueError, match=text) as caught:
        tfs.convert(str(source), str(source.parent / "t"))
    assert source.name in str(caught.value)
    assert [each.name for each in source.parent.iterdir()] == [source.name]


def test_a_flipped_bit_in_a_header_of_a_tar_file(tmp_path: Path) -> None:
    data = bytearray(tar_bytes())
    data[10 * MEMBER + 2] ^= 1
    refused(tmp_path / "a.tar", bytes(data), f"bad checksum at offset {10 * MEMBER:,}")


@pytest.mark.parametrize("behind", [0, 1, 200, 511, 512, 600, 1500])
def test_a_tar_file_that_is_cut(tmp_path: Path, behind: int) -> None:
    refused(tmp_path / "a.tar", tar_bytes()[: 7 * MEMBER + behind], "cannot be read as a tar file")


def test_a_tar_file_behind_another(tmp_path: Path) -> None:
    refused(tmp_path / "a.tar", tar_bytes() + tar_bytes(3), "goes on behind the end")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_tar_file(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    source, whole = tmp_path / "a.tar.gz", tar_bytes()
    refused(source, pack(whole[: 7 * MEMBER]), "empty header at offset")
    packed = pack(whole)
    for cut in (len(packed) // 2, len(packed) - 1):
        refused(source, packed[:cut], "cannot be read as a tar file")
    refused(source, pack(whole[: 7 * MEMBER])[:-9] + packed, "cannot be read as a tar file")
    halves = pack(whole[: 7 * MEMBER]) + pack(whole[7 * MEMBER :])
    source.write_bytes(halves)
    tfs.convert(str(source), str(tmp_path / "t"))
    assert len(tfs.RecordSource(str(tmp_path / "t"))) == COUNT


def test_a_wrong_checksum_of_gzip(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(tar_bytes()))
    packed[-8] ^= 1
    refused(tmp_path / "a.tar.gz", bytes(packed), "CRC check failed")


def test_an_arrow_stream_that_is_cut(tmp_path: Path) -> None:
    data, ends = arrow_stream()
    for end in ends[:-1]:
        refused(tmp_path / "a.arrow", data[:end], f"ends at byte {end:,} without the mark")
    for cut in (*range(1, 9), 30, 90):
        refused(tmp_path / "a.arrow", data[:-cut], "cannot be read as arrow")


def test_an_arrow_stream_behind_another(tmp_path: Path) -> None:
    data, _ = arrow_stream()
    refused(tmp_path / "a.arrow", data + data, f"ends at byte {len(data):,} of {2 * len(data):,}")


def test_an_empty_arrow_stream(tmp_path: Path) -> None:
    data, _ = arrow_stream(0)
    refused(tmp_path / "a.arrow", data[:-8], "without the mark")
    (tmp_path / "a.arrow").write_bytes(data)
    tfs.convert(str(tmp_path / "a.arrow"), str(tmp_path / "t"))
    assert len(tfs.RecordSource(str(tmp_path / "t"))) == 0


def test_cut_arrow_and_parquet_files_are_named(tmp_path: Path) -> None:
    table = pa.table({"a": range(1000), "b": ["text"] * 1000})
    for name, write in (("a.arrow", pa.feather.write_feather), ("a.parquet", pq.write_table)):
        source = tmp_path / name
        write(table, source)
        data = source.read_bytes()
        form = name.partition(".")[2]
        for cut in (1, 8, len(data) // 2, len(data) - 7):
            refused(source, data[:-cut], f"cannot be read as {form}")
        middle = bytearray(data)
        middle[4:600] = bytes(596)
        refused(source, bytes(middle), "cannot be read as")
        source.unlink()
