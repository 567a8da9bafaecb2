"""`convert`, there and back, against pyarrow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.cli.conftest import ROWS, Kept, Run
from tests.servers.place import Place
from tests.support.framed import framed

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

TABLE = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "name": pa.array([None if i % 7 == 0 else f"row {i}" for i in range(1000)]),
        "score": pa.array([i / 3 for i in range(1000)], pa.float64()),
        "ids": pa.array([None if i % 5 == 0 else list(range(i % 4)) for i in range(1000)]),
        "day": pa.array(range(1000), pa.date32()),
    }
)


def stored(place: Place, name: str, table: Any = TABLE) -> str:
    """The table as a file at a place."""
    sink = pa.BufferOutputStream()
    if name.endswith("parquet"):
        parquet.write_table(table, sink, row_group_size=300)
    elif name.endswith("csv"):
        csv.write_csv(table, sink)
    elif name.endswith("jsonl"):
        sink.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
    else:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=300)
    return place.put(name, sink.getvalue().to_pybytes())


def options_of(place: Place) -> list[str]:
    return ["-o", json.dumps(place.storage_options)] if place.storage_options else []


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_there_and_back(run: Run, place: Place, form: str) -> None:
    options = options_of(place)
    source, back = stored(place, f"t.{form}"), place.url(f"back.{form}")
    limit = ("--max-shard-bytes", "20kB", "--exact")
    there = run("convert", source, place.url("train"), *options, *limit)
    assert there.out == f"{place.url('train')}: 1,000 rows as tfrecord\n"
    assert run("convert", place.url("train"), back, *options, "--json").document["records"] == 1000
    data = pa.BufferReader(place.get(f"back.{form}"))
    read = parquet.read_table if form == "parquet" else lambda one: pa.ipc.open_file(one).read_all()
    found = read(data)
    assert found.cast(TABLE.schema).equals(TABLE)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_text_there_and_back(run: Run, tmp_path: Path, form: str) -> None:
    place = Place(str(tmp_path))
    table = TABLE.select(["id", "name", "score"]).slice(1, 6)
    source, back = stored(place, f"t.{form}", table), place.url(f"back.{form}")
    assert run("convert", source, place.url("train"), "--exact").code == 0
    assert run("convert", place.url("train"), back).code == 0
    if form == "csv":
        assert csv.read_csv(back).to_pylist() == table.to_pylist()
    else:
        lines = Path(back).read_text(encoding="utf-8").splitlines()
        assert list(map(json.loads, lines)) == table.to_pylist()


def test_foreign_records_as_lines_and_parquet(run: Run, local: Kept) -> None:
    lines, columns = local.place.url("x.jsonl"), local.place.url("x.parquet")
    assert run("convert", local.url, lines).code == 0
    found = [json.loads(line) for line in Path(lines).read_text(encoding="utf-8").splitlines()]
    assert found == ROWS
    assert run("convert", local.url, columns).code == 0
    assert parquet.read_table(columns).column("id").to_pylist() == list(range(30))


def test_many_files_columns_schema_and_compression(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    stored(place, "a.parquet", TABLE.slice(0, 10))
    stored(place, "b.parquet", TABLE.slice(10, 10))
    target = place.url("train")
    answer = run(
        "convert", f"{tmp_path}/*.parquet", target, "-c", "id,score",
        "--schema", '{"score": "float32"}', "--compression", "gzip", "--num-shards", "1",
    )  # fmt: skip
    assert answer.code == 0
    assert tfs.info(target).compression == "GZIP"
    assert dict(tfs.infer_schema(target)) == dict(tfs.Schema({"id": "int64", "score": "float32"}))
    assert tfs.read_table(target)["id"].tolist() == list(range(20))


def test_a_schema_that_a_command_printed(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    source, path = stored(place, "a.parquet", TABLE.select(["id"])), tmp_path / "schema.json"
    run("convert", source, place.url("one"))
    path.write_text(run("schema", place.url("one"), "--json").out, encoding="utf-8")
    assert run("convert", source, place.url("two"), "--schema", f"@{path}").code == 0
    assert tfs.diff(place.url("one"), place.url("two")).same


def test_structs_are_flattened_on_request(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    source = stored(place, "a.parquet", pa.table({"s": [{"x": 1}, {"x": 2}]}))
    assert run("convert", source, place.url("t")).code == 2
    assert run("convert", source, place.url("t"), "--flatten").code == 0
    assert list(tfs.infer_schema(place.url("t"))) == ["s.x"]


def test_an_existing_file(run: Run, local: Kept) -> None:
    target = local.place.url("x.jsonl")
    assert run("convert", local.url, target).code == 0
    again = run("convert", local.url, target)
    assert again.code == 2
    assert target in again.err
    assert run("convert", local.url, target, "--if-exists", "overwrite").code == 0
    assert run("convert", local.url, target, "--if-exists", "append").code == 2


def test_what_fails_leaves_no_file(run: Run, tmp_path: Path) -> None:
    data = bytearray(framed([tfs.encode_example({"x": i}) for i in range(9)]))
    data[-10] ^= 1
    (tmp_path / "f").write_bytes(data)
    for name in ("x.parquet", "x.jsonl", "x.csv", "x.arrow"):
        assert run("convert", tmp_path / "f", tmp_path / name).code == 1
    tfs.write_table({"lists": [[1], [2, 3]]}, str(tmp_path / "train"))
    answer = run("convert", tmp_path / "train", tmp_path / "x.csv")
    assert answer.code == 2
    assert "csv cannot hold column 'lists'" in answer.err
    assert not list(tmp_path.glob("x.*"))
    assert not list(tmp_path.glob(".*x.*"))


def test_what_cannot_be_converted(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    source = stored(place, "a.parquet", TABLE)
    wrong = tmp_path / "b.parquet"
    wrong.write_bytes(b"no parquet")
    for arguments, text in (
        ([source, tmp_path / "x.csv"], "exactly one side must be TFRecord"),
        ([tmp_path / "none", tmp_path / "x"], "tfio-store copy makes a dataset of datasets"),
        ([tmp_path / "none", tmp_path / "x"], "or else --from or --to says what it is"),
        ([source, tmp_path / "x.csv", tmp_path / "t"], "several formats"),
        ([source, tmp_path / "t", "-c", "nope"], "no column 'nope'; there are id, "),
        ([wrong, tmp_path / "t"], f"{wrong}: cannot be read as parquet"),
        ([source, tmp_path / "t", "--schema", "x"], "--schema: this is no JSON object"),
    ):
        answer = run("convert", *arguments)
        assert answer.code == 2
        assert text in answer.err
        assert answer.err.count("\n") == 1
    assert run("convert", tmp_path / "none.parquet", tmp_path / "t").code == 3


def test_names_that_tell_nothing(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    data = place.get(stored(place, "a.parquet").rpartition("/")[2])
    source = place.put("plain", data)
    assert run("convert", source, place.url("t"), "--from", "parquet").code == 0
    assert run("convert", place.url("t"), place.url("out"), "--to", "parquet").code == 0
    assert parquet.read_table(place.url("out")).num_rows == 1000


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([[1, 2], [3]], "Unsupported Type"),
        ([b"\xff", b"a"], "Invalid UTF8"),
    ],
)
def test_csv_names_the_column_that_it_cannot_hold(
    run: Run, tmp_path: Path, values: list[Any], told: str
) -> None:
    train, target = tmp_path / "train", tmp_path / "x.csv"
    tfs.write_table({"id": [1, 2], "odd": values}, train)
    answer = run("convert", train, target)
    assert answer.code == 2
    assert f"csv cannot hold column 'odd': {told}" in answer.err
    assert "; name others in --columns or pass --to jsonl or pass --to parquet" in answer.err
    assert not target.exists()
    assert run("convert", train, target, "-c", "id").code == 0
    assert run("convert", train, tmp_path / "x.jsonl").code == 0
