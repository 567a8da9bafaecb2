"""Batches are decoded by threads ahead of their use, and what comes of them stays in order."""

from __future__ import annotations

import threading

import pytest

from tfio_store import (
    CorruptRecordError,
    Feature,
    RecordBatch,
    SchemaError,
    ShardedWriter,
    encode_example,
    iter_tables,
    read_table,
)
from tfio_store.example.codec import decode_columns
from tfio_store.storage.cores import cores
from tfio_store.tables import read_table as table_decoding
from tfio_store.tables.read_table import decoded

BATCHES = [RecordBatch.from_records([b"%d" % i]) for i in range(50)]


def number(batch):
    return int(batch[0])


def test_results_are_in_order():
    assert list(decoded(BATCHES, number)) == list(range(50))
    assert list(decoded([], number)) == []


def test_a_result_waits_for_the_ones_before_it():
    second = threading.Event()

    def decode(batch):
        if number(batch) == 0 and cores() > 1:
            assert second.wait(60)
        if number(batch) == 1:
            second.set()
        return number(batch)

    assert list(decoded(BATCHES, decode)) == list(range(50))


def test_an_error_of_decoding_comes_in_its_place():
    def decode(batch):
        if number(batch) == 7:
            raise SchemaError("is wrong", feature="x", record=0)
        return number(batch)

    found = decoded(BATCHES, decode)
    assert [next(found) for _ in range(7)] == list(range(7))
    with pytest.raises(SchemaError, match="is wrong"):
        next(found)


def test_an_error_of_reading_comes_behind_what_was_read():
    def batches():
        yield from BATCHES[:3]
        raise OSError("the store is gone")

    found = decoded(batches(), number)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="the store is gone"):
        next(found)


@pytest.mark.parametrize(("most", "ahead"), [(1 << 20, cores() + 1), (0, 1)])
def test_few_batches_are_read_ahead(monkeypatch, most, ahead):
    monkeypatch.setattr(table_decoding, "_MOST_BYTES", most)
    taken = []

    def batches():
        for batch in BATCHES:
            taken.append(batch)
            yield batch

    found = decoded(batches(), number)
    for i in range(20):
        assert next(found) == i
        assert len(taken) <= i + ahead
    found.close()
    assert len(taken) < 30


@pytest.mark.parametrize("absent", [{"nullable": True}, {"default": 7}])
def test_large_results_are_made_one_at_a_time(tmp_path, monkeypatch, absent):
    """Short records without values make large columns."""
    monkeypatch.setattr(table_decoding, "_MOST_ROOM", 1 << 20, raising=False)
    begun = []

    def decode(batch, *args, **options):
        begun.append(len(batch))
        return decode_columns(batch, *args, **options)

    url = str(tmp_path / "ds")
    with ShardedWriter(url, max_shard_records=300) as writer:
        for _ in range(1500):
            writer.write(encode_example({}))
    schema = {"x": Feature("int64", (1000,), **absent)}
    tables = iter_tables(url, schema=schema)
    monkeypatch.setattr(table_decoding, "decode_columns", decode)
    for i in range(1, 6):
        assert tables.read_next_batch().num_rows == 300
        assert begun == [300] * i


def test_tables_name_the_bad_record_behind_all_good_ones(tmp_path):
    url = str(tmp_path / "ds")
    with ShardedWriter(url, max_shard_records=500) as writer:
        for i in range(1000):
            writer.write(encode_example({"x": i}) if i < 700 else b"\xff")
    schema, rows = {"x": "int64"}, 0
    with pytest.raises(CorruptRecordError, match="not a tf"):
        for batch in iter_tables(url, schema=schema):
            assert batch["x"].to_pylist() == list(range(rows, rows + len(batch)))
            rows += len(batch)
    assert rows == 500
    with pytest.raises(CorruptRecordError, match="not a tf"):
        read_table(url, schema=schema)
