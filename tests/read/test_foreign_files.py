"""The golden files of gzip, pigz, bgzip, Java and Hadoop, by every door that needs no framework."""

from __future__ import annotations

import gzip
import itertools
import json
import pickle
import shutil
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.support.foreign import short_blocks
from tests.support.framed import framed
from tests.vectors.make_foreign import COUNT, EMPTY, FILES, FOLDER, records
from tfio_store.cli.entry import main
from tfio_store.records.framing import backend

RECORDS = records()

compiled = pytest.mark.skipif(
    backend().core == "pure", reason="only the compiled core builds indexes"
)


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(shutil.copy(FOLDER / request.param, tmp_path))


@pytest.fixture
def indexed(path: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file with an index of many blocks."""
    short_blocks(monkeypatch)
    assert tfs.build_index(path).records == COUNT
    blocks = tfs.open(path).shards[0].blocks
    assert blocks is not None
    assert len(blocks) > 4
    return path


each = pytest.mark.parametrize("path", FILES, indirect=True)


@each
def test_as_a_stream(path: str) -> None:
    assert list(tfs.RecordReader(path)) == RECORDS
    assert tfs.count(path) == COUNT
    assert tfs.verify(path).ok
    with open(path, "rb") as file:
        assert list(tfs.RecordReader(file)) == RECORDS


@compiled
@each
def test_as_partitions_and_tables(indexed: str) -> None:
    parts = pickle.loads(pickle.dumps(tfs.partitions(indexed, num_partitions=4)))
    assert len(parts) == 4
    assert [record for part in parts for record in part.reader()] == RECORDS
    assert list(tfs.read_table(indexed, columns=["i"])["i"]) == list(range(COUNT))
    found = tfs.arrow_dataset(indexed).to_table(columns=["i"])["i"].to_pylist()
    assert sorted(found) == list(range(COUNT))


@compiled
@each
def test_whole_files(indexed: str, tmp_path: Path) -> None:
    assert tfs.verify(indexed).ok
    tfs.copy(indexed, str(tmp_path / "copied"), target_compression="ZSTD")
    assert sorted(tfs.RecordReader(str(tmp_path / "copied"))) == sorted(RECORDS)
    tfs.salvage(indexed, str(tmp_path / "salvaged.tfrecord"))
    assert list(tfs.RecordReader(str(tmp_path / "salvaged.tfrecord"))) == RECORDS


@compiled
@each
def test_on_the_command_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*argv: str) -> str:
        assert main([*argv, "--quiet"]) == 0
        return capsys.readouterr().out

    assert said("count", path).strip() == str(COUNT)
    said("index", path)
    assert json.loads(said("head", path, "-n", "400", "-c", "i").splitlines()[-1]) == {"i": 399}
    said("verify", path)


@compiled
@each
def test_the_first_pass_indexes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    short_blocks(monkeypatch)
    assert list(tfs.RecordReader(path, build_index="on_read")) == RECORDS
    assert tfs.RecordSource(path)[[399, 0]] == [RECORDS[399], RECORDS[0]]


@compiled
@each
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_a_flipped_bit_loses_what_is_between_two_checkpoints(indexed: str, share: float) -> None:
    dataset, stored = tfs.open(indexed), Path(indexed)
    data = bytearray(stored.read_bytes())
    at = int(len(data.rstrip(b"\0")) * share)
    data[at] ^= 8
    spoiled = stored.parent / "spoiled" / stored.name
    spoiled.parent.mkdir()
    spoiled.write_bytes(data)
    shutil.copy(stored.parent / f"_{stored.name}.checkpoints", spoiled.parent)
    with pytest.warns(tfs.errors.DataLossWarning):
        found = set(tfs.RecordReader(str(spoiled), on_corrupt="skip"))

    blocks = dataset.shards[0].blocks
    assert blocks is not None
    ends = itertools.pairwise(blocks.records.tolist())
    spans = [(dataset.block(0, number), span) for number, span in enumerate(ends)]
    near = [span for block, span in spans if block.start <= at < block.stop]
    may_be_lost = {record for begin, end in near for record in RECORDS[begin:end]}
    assert found < set(RECORDS)
    assert set(RECORDS) - found <= may_be_lost


@pytest.mark.parametrize("path", EMPTY, indirect=True)
def test_without_a_record(path: str) -> None:
    assert list(tfs.RecordReader(path)) == []
    assert tfs.count(path) == 0
    assert tfs.verify(path).ok
    if backend().core != "pure":
        assert tfs.build_index(path).records == 0
        assert tfs.RecordSource(path)[:] == []
        assert list(tfs.RecordReader(path).shuffle(1).shard(1, 2)) == []


@compiled
def test_one_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(framed([b"x"])))
    tfs.build_index(str(path))
    assert tfs.RecordSource(str(path))[:] == [b"x"]
    path.write_bytes(gzip.compress(b"x"))
    with pytest.raises(tfs.TruncatedRecordError, match=r"a\.gz"), pytest.warns(RuntimeWarning):
        tfs.build_index(str(path))
    path.write_bytes(b"\x1f")
    with pytest.raises(tfs.DataLossError, match=r"a\.gz"):
        list(tfs.RecordReader(str(path)))
