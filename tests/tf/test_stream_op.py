"""What one call of the op that reads streams brings, and where it says that reading stands."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.framed import framed

tf = pytest.importorskip("tensorflow")

from tfio_store.tf.dataset import fallback, ops  # noqa: E402
from tfio_store.tf.dataset.options import Settings  # noqa: E402

pytestmark = pytest.mark.tensorflow

BEGIN = (0, 0, -1)
MIB = 1 << 20
FILES: dict[str, tuple[str, list[bytes]]] = {
    "raw": ("", [b"a", b"", b"c" * 100]),
    "empty": ("", []),
    "gzip": ("GZIP", [b"d", b"e"]),
    "zlib": ("ZLIB", [b"f"]),
    "gzip of nothing": ("GZIP", []),
    "raw again": ("", [b"g"]),
}
ALL = [record for _, records in FILES.values() for record in records]


class Read(NamedTuple):
    records: list[bytes]
    version: str
    position: tuple[int, ...]


def read(
    names: list[str],
    position: tuple[int, ...] = BEGIN,
    version: str = "",
    codec: str = "auto",
    **settings: Any,
) -> Read:
    shape = [len(names)]
    files = tf.constant(names, tf.string, shape), tf.constant(codec, tf.string, shape)
    wanted = *files, tf.constant(version), tf.constant(position, tf.int64)

    @tf.function
    def call() -> Any:
        return ops.read_stream(*wanted, Settings(**settings))

    records, held, after, error = call()
    tf.function(ops.raise_error)(error, tf.constant(""))
    return Read(records.numpy().tolist(), held.numpy().decode(), tuple(after.numpy().tolist()))


def read_on(names: list[str], **settings: Any) -> Iterator[Read]:
    """Calls until the end."""
    found = Read([], "", BEGIN)
    while True:
        try:
            found = read(names, found.position, found.version, **settings)
        except tf.errors.OutOfRangeError:
            return
        yield found


def compressed(codec: str, data: bytes) -> bytes:
    if codec == "GZIP":
        return gzip.compress(data)
    return zlib.compress(data) if codec else data


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    for name, (codec, records) in FILES.items():
        (tmp_path / name).write_bytes(compressed(codec, framed(records)))
    return [str(tmp_path / name) for name in FILES]


@pytest.mark.parametrize("settings", [{}, {"skip_corrupt": True}, {"verify": False}], ids=str)
def test_one_call_reads_many_small_files(
    names: list[str], opened: list[str], settings: dict[str, Any]
) -> None:
    assert read(names, **settings) == Read(ALL, "", (len(names), 0, -1))
    assert opened == []
    with pytest.raises(tf.errors.OutOfRangeError):
        read(names, (len(names), 0, -1), **settings)


def test_codecs_may_be_named(names: list[str], opened: list[str]) -> None:
    gzips = [name for name in names if FILES[os.path.basename(name)][0] == "GZIP"]
    assert read(gzips, codec="GZIP").records == [b"d", b"e"]
    raws = [name for name in names if FILES[os.path.basename(name)][0] == ""]
    assert read(raws, codec="").records == [b"a", b"", b"c" * 100, b"g"]
    assert opened == []


def test_files_without_records_end_at_once(names: list[str]) -> None:
    with pytest.raises(tf.errors.OutOfRangeError):
        read([names[1], names[4]])
    with pytest.raises(tf.errors.OutOfRangeError):
        read([])


def test_a_call_brings_about_a_mib(tmp_path: Path) -> None:
    for i in range(10):
        (tmp_path / f"{i}").write_bytes(framed([b"%d" % i * 100_000] * 3))
    found = list(read_on([str(tmp_path / f"{i}") for i in range(10)]))
    assert [len(call.records) for call in found] == [12, 12, 6]
    assert [call.position for call in found] == [(4, 0, -1), (8, 0, -1), (10, 0, -1)]


def test_a_large_file_is_read_in_parts_of_its_version(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "large").write_bytes(framed([b"x" * 100_000] * 25))
    first, *later = read_on([names[0], str(tmp_path / "large"), names[5]])
    assert first.records[:3] == ALL[:3]
    assert first.position[:2] == (1, len(first.records) - 3)
    assert first.version
    assert later[-1].position == (3, 0, -1)
    assert sum(len(call.records) for call in [first, *later]) == 3 + 25 + 1


@pytest.mark.parametrize("codec", ["", "GZIP"])
@pytest.mark.parametrize("damage", ["a flipped bit", "cut", "missing"])
def test_what_fails_is_met_behind_the_files_before(
    tmp_path: Path, names: list[str], codec: str, damage: str
) -> None:
    data = bytearray(compressed(codec, framed([b"h" * 50, b"i" * 50])))
    data[-20] ^= damage == "a flipped bit"
    bad = tmp_path / "bad"
    if damage != "missing":
        bad.write_bytes(data[:-5] if damage == "cut" else data)
    wanted = [names[0], str(bad), names[5]]
    found = read(wanted)
    assert found.records[:3] == ALL[:3]
    assert found.records[3:] in ([], [b"h" * 50], [b"h" * 50, b"i" * 50])
    kind = tf.errors.NotFoundError if damage == "missing" else tf.errors.DataLossError
    with pytest.raises(kind, match="bad"):
        for _ in range(2):
            found = read(wanted, found.position, found.version)


def test_a_small_file_of_much_is_no_small_file(tmp_path: Path, opened: list[str]) -> None:
    (tmp_path / "much").write_bytes(gzip.compress(framed([bytes(100_000)] * 20)))
    assert os.path.getsize(tmp_path / "much") < MIB / 4
    found = list(read_on([str(tmp_path / "much")]))
    assert sum(len(call.records) for call in found) == 20
    assert opened == ["much"]


def test_the_same_in_tensorflow_s_own_ops(names: list[str]) -> None:
    @tf.function
    def call(position: Any, version: Any) -> Any:
        codecs = tf.constant(["auto"] * len(names))
        return fallback.read_stream(tf.constant(names), codecs, version, position, Settings())

    found: list[bytes] = []
    position, version = tf.constant(BEGIN, tf.int64), tf.constant("")
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            records, version, position, _ = call(position, version)
            found += records.numpy().tolist()
    assert found == ALL
