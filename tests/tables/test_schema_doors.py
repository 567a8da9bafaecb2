"""Who reads rows or columns uses what the writer learned of them, and "bytes" asks for records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support import learned

pa = pytest.importorskip("pyarrow")

COUNT = 20_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("learned") / "train")
    learned.write(found, COUNT)
    return found


def by_part(url: str) -> Any:
    parts = tfs.partitions(url, num_partitions=3)
    return pa.Table.from_batches(b for part in parts for b in part.arrow_batches())


TABLES: dict[str, Any] = {
    "read_table": lambda url: tfs.read_table(url).to_arrow(),
    "iter_tables": lambda url: tfs.iter_tables(url).read_all(),
    "arrow_dataset": lambda url: tfs.arrow_dataset(url).to_table(),
    "partitions": by_part,
}


@pytest.mark.parametrize("door", TABLES)
def test_tables_have_the_learned_columns(url: str, door: str) -> None:
    table = TABLES[door](url)
    assert tuple(table.column_names) == learned.NAMES
    rows = sorted(table.to_pylist(), key=lambda row: row["number"])
    assert rows == [learned.row(i) for i in range(COUNT)]


BYTES: dict[str, Any] = {
    "read_table": lambda url: tfs.read_table(url, schema="bytes").to_arrow(),
    "read_table of batches": lambda url: tfs.read_table(
        url, schema="bytes", strings="batch"
    ).to_arrow(),
    "iter_tables": lambda url: tfs.iter_tables(url, schema="bytes").read_all(),
    "iter_tables by rows": lambda url: tfs.iter_tables(
        url, schema="bytes", batch_rows=700, columns=["record"]
    ).read_all(),
    "arrow_dataset": lambda url: tfs.arrow_dataset(url, schema="bytes").to_table(),
    "partitions": lambda url: pa.Table.from_batches(
        b for part in tfs.partitions(url) for b in part.arrow_batches("bytes")
    ),
}


@pytest.mark.parametrize("door", BYTES)
def test_bytes_are_the_records(url: str, door: str) -> None:
    table = BYTES[door](url)
    assert table.column_names == ["record"]
    with tfs.RecordReader(url) as reader:
        assert table["record"].to_pylist() == list(reader)


def test_bytes_are_plain_columns(url: str) -> None:
    found = tfs.read_table(url, schema="bytes")
    assert (found["record"].dtype, found.schema) == (object, tfs.Schema({"record": "bytes"}))
    assert found.to_pandas()["record"].tolist() == found["record"].tolist()
    (part,) = tfs.partitions(url)
    assert part.arrow_schema("bytes").names == ["record"]
    with pytest.raises(KeyError, match="number"):
        tfs.read_table(url, schema="bytes", columns=["number"])
    assert sum(b.num_rows for b in part.arrow_batches("bytes", [])) == COUNT


@pytest.mark.parametrize("door", [tfs.read_table, tfs.iter_tables, tfs.arrow_dataset])
def test_no_other_word_is_a_schema(url: str, door: Any) -> None:
    with pytest.raises(ValueError, match=r'schema= takes .* "auto" or "bytes", not .byte'):
        door(url, schema="byte")


FOREIGN: dict[str, Any] = {
    "read_table": lambda url: tfs.read_table(url, schema="auto").to_arrow(),
    "iter_tables": lambda url: tfs.iter_tables(url, schema="auto").read_all(),
    "arrow_dataset": lambda url: tfs.arrow_dataset(url, schema="auto").to_table(),
    "partitions": lambda url: pa.Table.from_batches(
        b for part in tfs.partitions(url) for b in part.arrow_batches("auto")
    ),
}


@pytest.mark.parametrize("door", FOREIGN)
def test_auto_looks_at_some_records_of_foreign_files(tmp_path: Path, door: str) -> None:
    records = [
        tfs.encode_example({"x": i, "late": 0.5} if i > 1500 else {"x": i}) for i in range(3000)
    ]
    with tfs.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for record in records:
            writer.write(record)
    found = FOREIGN[door](tmp_path / "a.tfrecord")
    assert found.to_pydict() == {"x": list(range(3000))}
    assert tfs.read_table(tmp_path / "a.tfrecord").to_arrow().column_names == ["late", "x"]


def test_what_is_written_takes_no_word(tmp_path: Path) -> None:
    for write in (tfs.ShardedWriter, tfs.WriteJob):
        with pytest.raises(TypeError, match="schema= takes a Schema"):
            write(tmp_path / "t", num_shards=1, schema="bytes")  # type: ignore[arg-type]


def test_a_schema_is_answered_without_reading(url: str, tmp_path: Path) -> None:
    import shutil

    folder = shutil.copytree(Path(url).parent, tmp_path / "copy")
    for shard in folder.glob("*-of-*"):
        size = shard.stat().st_size
        shard.write_bytes(bytes(size))  # nothing of it can be read
    assert tfs.infer_schema(folder / "train") == learned.SCHEMA


def test_stats_and_rows_use_it(url: str) -> None:
    from tfio_store.tables.rows import Selection

    found = tfs.stats(url).features
    assert {name: found[name].dtype for name in found} == {
        name: feature.dtype for name, feature in learned.SCHEMA.items()
    }
    with tfs.RecordReader(url) as reader:
        rows = list(Selection(url).rows([next(reader.batches())]))
    assert rows[1] == learned.row(rows[1]["number"])


def test_a_report_uses_it(url: str) -> None:
    found = tfs.report(url)
    assert found.facts.header.schema_source == "manifest"
    assert [name for name, _ in found.facts.header.schema] == list(learned.NAMES)
