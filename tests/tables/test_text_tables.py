"""CSV and JSON lines become datasets whose values are those of the text."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.tables.formats import json_lines

pytest.importorskip("pyarrow")

BIG = 18446744073709551615
ODD = 2**53 + 1


def made(tmp_path: Path, form: str, text: str, **how: Any) -> tfs.results.Examples:
    """What the file's text becomes."""
    source, target = tmp_path / f"f.{form}", str(tmp_path / "train")
    source.write_text(text, encoding="utf-8")
    tfs.convert(str(source), target, num_shards=1, exact=True, **how)
    return tfs.read_table(target)


def made_of(tmp_path: Path, form: str, *texts: str, **how: Any) -> tfs.results.Examples:
    """What several files become together."""
    target = str(tmp_path / "train")
    sources = [tmp_path / f"f{number}.{form}" for number in range(len(texts))]
    for source, text in zip(sources, texts, strict=True):
        source.write_text(text, encoding="utf-8")
    tfs.convert([str(source) for source in sources], target, num_shards=1, exact=True, **how)
    return tfs.read_table(target)


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_large_integers_keep_their_digits_and_texts_stay_texts(tmp_path: Path) -> None:
    found = made(tmp_path, "jsonl", lines({"u": BIG, "d": "2020-01-01"}, {"u": 1, "d": "b"}))
    assert found["u"].tolist() == [BIG, 1]
    assert found["d"].tolist() == ["2020-01-01", "b"]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["00501", "7"], ["00501", "7"]),
        (["2020-01-01", "10:00:00"], ["2020-01-01", "10:00:00"]),
        ([str(BIG), "1"], [BIG, 1]),
        ([str(BIG + 1), "1"], [str(BIG + 1), "1"]),
        (["1.5", "2"], [1.5, 2.0]),
        (["true", "false"], [True, False]),
        (["-0.5e3", "inf"], [-500.0, float("inf")]),
        (["-0", "5"], [-0.0, 5.0]),
        (["1e400", "5"], ["1e400", "5"]),
        (["1e-400", "5"], ["1e-400", "5"]),
        (["1e5", "12e3"], ["1e5", "12e3"]),
        (["1e+5", "1.e2"], [1e5, 100.0]),
        (["0.1234567890123456789", "5"], ["0.1234567890123456789", "5"]),
        (["0.1000000000000000055511151231257827", "5"], [0.1, 5.0]),
        (["5", "NA"], [5, None]),
        (["a", ""], ["a", None]),
        (["a", '""'], ["a", ""]),
    ],
)
def test_cells(tmp_path: Path, cells: list[str], values: list[Any]) -> None:
    found = made(tmp_path, "csv", "x,i\n" + "".join(f"{cell},1\n" for cell in cells))
    assert found["x"].tolist() == values


@pytest.mark.parametrize(
    ("form", "text"),
    [("jsonl", lines({"a": ODD}, {"a": 1.5})), ("csv", f"a\n{ODD}\n1.5\n")],
)
def test_what_a_float_would_change_is_refused(tmp_path: Path, form: str, text: str) -> None:
    for how in ({}, {"schema": {"a": "float64"}}):
        with pytest.raises(ValueError, match=rf"f\.{form}: column 'a': .*{ODD}"):
            made(tmp_path, form, text, **how)
    assert not list(tmp_path.glob("*train*"))


@pytest.mark.parametrize(
    ("form", "value", "schema"),
    [
        ("jsonl", "1e400", {}),
        ("jsonl", "1e-400", {}),
        ("jsonl", "0.1234567890123456789", {}),
        ("jsonl", str(2**60), {}),
        ("jsonl", "16777217", {"a": "float32"}),
        ("jsonl", "1e39", {"a": "float32"}),
        ("csv", str(2**60), {}),
        ("csv", "1e400", {"a": "float64"}),
        ("csv", "16777217", {"a": "float32"}),
        ("csv", "1e39", {"a": "float32"}),
        ("csv", "2049", {"a": "float16"}),
    ],
)
def test_numbers_that_no_float_holds(
    tmp_path: Path, form: str, value: str, schema: dict[str, str]
) -> None:
    text = f"a\n0.5\n{value}\n" if form == "csv" else f'{{"a":0.5}}\n{{"a":{value}}}\n'
    with pytest.raises(ValueError, match=rf"f\.{form}: "):
        made(tmp_path, form, text, schema=schema or None)


def comes_back(tmp_path: Path, form: str, table: dict[str, Any], *, schema: bool = True) -> None:
    """A dataset of the table becomes text, and that the same dataset again."""
    one, file, two = str(tmp_path / "one"), str(tmp_path / f"f.{form}"), str(tmp_path / "two")
    tfs.write_table(table, one, num_shards=1, exact=True)
    tfs.convert(one, file)
    tfs.convert(file, two, schema=tfs.infer_schema(one) if schema else None, num_shards=1)
    assert list(tfs.RecordReader(two)) == list(tfs.RecordReader(one))


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_integers_that_a_float_writes(tmp_path: Path, form: str) -> None:
    comes_back(tmp_path, form, {"a": np.array([123456792, 2**60, 0.1, -0.0], np.float32)})


def test_csv_files_of_other_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"f1\.csv: .*column '[bB]'"):
        made_of(tmp_path, "csv", "a,b\n1,2\n", "a,B\n1,2\n")
    assert made_of(tmp_path, "csv", "a,b\n1,2\n", "b,a\n2,1\n")["b"].tolist() == [2, 2]


def test_a_schema_decides(tmp_path: Path) -> None:
    schema = {"zip": "str", "u": "uint64", "p": "float32", "t": "datetime64[us]"}
    rows = {"zip": ["501"], "u": [5], "p": [1.0], "t": [np.datetime64("2020-01-01", "us")]}
    found = made(tmp_path, "csv", "zip,u,p,t\n501,5,1,2020-01-01\n", schema=schema)
    assert {name: list(found[name]) for name in found} == rows
    assert {name: feature.dtype for name, feature in found.schema.items()} == schema


def test_fields_that_come_late(tmp_path: Path) -> None:
    text = lines({"a": None}) * 20_000 + lines({"a": 5, "b": "x"}, {"a": BIG})
    found = made(tmp_path, "jsonl", text)
    assert found["a"].tolist()[-3:] == [None, 5, BIG]
    assert found["b"].tolist()[-3:] == [None, "x", None]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a":1}\n[5]\n', "line 2 is no JSON object"),
        ('{"a":1}\n{"a"\n', "line 2 is no JSON"),
        ('{"a":1}\n{"a":"b"}\n', "column 'a': it holds int and str"),
        ("[" * 100_000, "line 1 is no JSON"),
        ('{"a":' + "[" * 400 + "]" * 400 + "}", "line 1 nests more than 64"),
        ('{"\\ud800":1}', "no Unicode text"),
    ],
)
def test_lines_that_are_wrong(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=rf"f\.jsonl: .*{says}"):
        made(tmp_path, "jsonl", text)


TABLE: dict[str, Any] = {
    "text": ["a", "00501", "2020-01-01", ""],
    "wide": np.array([BIG, 0, 1, 2], np.uint64),
    "small": np.array([1, -2, 3, 4], np.int8),
    "single": np.array([0.1, float("nan"), float("inf"), -0.0], np.float32),
    "double": [0.1, 1e300, float("-inf"), 2.0],
    "truth": [True, False, True, True],
    "time": np.array(["2020-01-01T00:00:00.5", "1969-12-31", "2000-01-01", "2000-01-02"], "M8[us]"),
    "none": np.ma.array([1, 2, 3, 4], mask=[True, False, False, True]),
}
NO_CELLS: dict[str, Any] = {
    "span": np.array([1, -1500, 0, 10**9], "m8[ms]"),
    "bytes": [b"\xff\x00", b"text", b"", b"{}"],
    "lists": [[1, 2], [], [3], [4]],
    "pairs": np.array([[1.5, 2], [3, float("nan")], [5, 6], [7, 8]]),
}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_there_and_back_by_the_schema(tmp_path: Path, form: str) -> None:
    comes_back(tmp_path, form, TABLE if form == "csv" else {**TABLE, **NO_CELLS})


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_a_table_without_rows_keeps_its_columns(tmp_path: Path, form: str) -> None:
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as parquet

    table = pa.table({"a": pa.array([], pa.int32()), "s": pa.array([], pa.string())})
    source, target = str(tmp_path / f"f.{form}"), str(tmp_path / "train")
    back = str(tmp_path / "back.parquet")
    if form == "arrow":
        with pa.ipc.new_file(source, table.schema) as writer:
            writer.write_table(table)
    else:
        (parquet.write_table if form == "parquet" else csv.write_csv)(table, source)
    tfs.convert(source, target)
    assert list(tfs.infer_schema(target)) == ["a", "s"]
    tfs.convert(target, back)
    found = parquet.read_table(back)
    assert found.column_names == ["a", "s"]
    if form != "csv":
        assert found.schema.equals(table.schema)


def test_no_dtype(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"feature 'a'.*'uint65'"):
        made(tmp_path, "jsonl", lines({"a": 1}), schema={"a": "uint65"})


@pytest.mark.parametrize("split", [False, True])
def test_rows_without_any_key_are_rows(tmp_path: Path, split: bool) -> None:
    texts = ["{}\n", '{"a":1}\n'] if split else ["{}\n" * 16384 + '{"a":1}\n']
    found = made_of(tmp_path, "jsonl", *texts)
    assert found["a"].tolist() == [None] * (1 if split else 16384) + [1]


def test_rows_without_columns_in_all_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"f0\.jsonl: .*no columns"):
        made_of(tmp_path, "jsonl", "{}\n", "{}\n")


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        ("csv", "a,b,a\n1,2,3\n", "2 columns are named 'a'"),
        ("csv", "a,,\n1,2,3\n", "2 columns are named ''"),
        ("jsonl", '{"a":1}\n{"a":1,"a":2}\n', "line 2: two fields are named 'a'"),
        ("jsonl", '{"a":[{"b":1,"b":2}]}\n', "line 1: two fields are named 'b'"),
    ],
)
def test_two_columns_of_one_name(tmp_path: Path, form: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=rf"f\.{form}: .*{says}"):
        made(tmp_path, form, text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('"x"\n1\n\n3\n', [1, None, 3]),
        ('"x"\n1\n\n', [1, None]),
        ("x\r\n1\r\n\r\n3", [1, None, 3]),
        ("\n\nx\n1\n\n3\n", [1, None, 3]),
        ('x\na\n\n""\n', ["a", None, ""]),
    ],
)
def test_an_empty_line_of_one_column_is_a_null(
    tmp_path: Path, text: str, values: list[Any]
) -> None:
    assert made(tmp_path, "csv", text)["x"].tolist() == values


def test_nulls_of_one_column_come_back(tmp_path: Path) -> None:
    rows = np.ma.array([1, 2, 3], mask=[False, True, True])
    comes_back(tmp_path, "csv", {"x": rows}, schema=False)


@pytest.mark.parametrize(
    "cell",
    ["two\nlines", "a\n" * 2_000_000, "b" * 3_000_000],
    ids=["lines", "many lines", "long"],
)
def test_cells_of_lines_and_long_rows(tmp_path: Path, cell: str) -> None:
    short = "1,2\n" * 700_000 if cell[0] == "a" else "1,2\n"
    found = made(tmp_path, "csv", f'a,b\n{short}1,"{cell}"\n3,4\n')
    assert len(found["a"]) == short.count("\n") + 2
    assert (found["a"].tolist()[-1], found["b"].tolist()[-3:]) == (3, ["2", cell, "4"])


def test_a_header_longer_than_a_block(tmp_path: Path) -> None:
    name = "b" * 1_500_000
    assert made(tmp_path, "csv", f"a,{name}\n1,2\n", columns=["a"])["a"].tolist() == [1]


@pytest.mark.parametrize(("last", "value"), [("5", 5), ("0.5", 0.5), ("true", True)])
def test_null_marks_of_a_block_tell_no_type(tmp_path: Path, last: str, value: Any) -> None:
    found = made(tmp_path, "csv", "a,b\n" + "NA,NA\n" * 200_000 + f"{last},x\n")
    assert (found["a"].tolist()[0], found["a"].tolist()[-1]) == (None, value)
    assert found["b"].tolist()[-2:] == ["NA", "x"]


def test_null_marks_alone_are_texts(tmp_path: Path) -> None:
    assert made(tmp_path, "csv", "a,b\nNA,1\n,2\n")["a"].tolist() == ["NA", None]


def test_many_names_end_a_piece() -> None:
    text = "".join(f'{{"{number}":1}}\n' for number in range(4_000)).encode()
    found = list(json_lines.pieces_of(io.BytesIO(text)))
    assert sum(rows for rows, _ in found) == 4_000
    assert max(rows * len(columns) for rows, columns in found) < 5_000_000


def there_and_back(tmp_path: Path, table: Any, **how: Any) -> tfs.results.Examples:
    """What comes back of a table that goes through JSON lines."""
    first, text, second = str(tmp_path / "a"), str(tmp_path / "a.jsonl"), str(tmp_path / "b")
    tfs.write_table(table, first, num_shards=1, exact=True)
    tfs.convert(first, text)
    tfs.convert(text, second, num_shards=1, exact=True, **how)
    return tfs.read_table(second)


def test_numbers_that_json_lacks_come_back(tmp_path: Path) -> None:
    x = np.array([np.nan] * 20_000 + [1.5, np.inf, -np.inf])
    lists = [[np.nan, 1.0], [np.inf]] * (len(x) // 2) + [[0.5]]
    names = ["NaN"] * (len(x) - 1) + ["Infinity"]
    found = there_and_back(tmp_path, {"x": x, "lists": lists, "names": names})
    np.testing.assert_array_equal(found["x"], x)
    assert repr([list(map(float, row)) for row in found["lists"]]) == repr(lists)
    assert found["names"].tolist() == names, "texts stay texts"


def test_a_column_of_no_number_that_json_has_is_refused(tmp_path: Path) -> None:
    tfs.write_table({"x": [np.nan, np.inf], "y": [1, 2]}, str(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"'x' holds no number but NaN.*columns="):
        tfs.convert(str(tmp_path / "a"), str(tmp_path / "a.jsonl"))
    assert not (tmp_path / "a.jsonl").exists()
    tfs.convert(str(tmp_path / "a"), str(tmp_path / "a.jsonl"), columns=["y"])


@pytest.mark.parametrize("zone", [None, "UTC", "+05:00", "Europe/Berlin"])
def test_times_say_whether_they_are_in_utc(zone: str | None, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    times = pa.array([0, 1_500_000, None], pa.timestamp("us", zone))
    lists = pa.array([[3], [], [4]], pa.list_(pa.timestamp("s", zone)))
    tfs.write_table(pa.table({"t": times, "l": lists}), str(tmp_path / "a"), num_shards=1)
    tfs.convert(str(tmp_path / "a"), str(tmp_path / "a.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    end = "Z" if zone else ""
    assert [row["t"] for row in rows] == [
        f"1970-01-01T00:00:00.000000{end}",
        f"1970-01-01T00:00:01.500000{end}",
        None,
    ]
    assert rows[0]["l"] == [f"1970-01-01T00:00:03{end}"]
    back = str(tmp_path / "b")
    schema = {"t": tfs.Feature("datetime64[us]", nullable=True)}
    tfs.convert(str(tmp_path / "a.jsonl"), back, columns=["t"], schema=schema)
    assert tfs.read_table(back)["t"].tolist()[:2] == times.cast(pa.timestamp("us")).to_pylist()[:2]


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2020-01-01T00:00:00+05:00", "2019-12-31T19:00:00"),
        ("2020-01-01T00:00-0130", "2020-01-01T01:30:00"),
        ("2020-01-01 10:00:00.25-00:30", "2020-01-01T10:30:00.25"),
        ("2020-01-01T10:00:00Z", "2020-01-01T10:00:00"),
        ("2020-01-01-05:00", None),
        ("2020-01-01T10:00:00+05", None),
        ("2020-01-01T10:00:00+05:60", None),
    ],
)
def test_offsets_are_counted(text: str, utc: str | None, tmp_path: Path) -> None:
    schema = {"t": "datetime64[ms]"}
    if utc is None:
        with pytest.raises(ValueError, match="is no time of"):
            made(tmp_path, "jsonl", lines({"t": text}), schema=schema)
    else:
        found = made(tmp_path, "jsonl", lines({"t": text}), schema=schema)
        assert found["t"][0] == np.datetime64(utc, "ms")


def test_a_row_of_many_fields_does_not_widen_the_rows_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_lines, "CELLS", 1000)
    wide = {f"k{i}": i for i in range(400)}
    rows = [{"a": i} for i in range(100)] + [wide, {"a": 1}]
    found = list(json_lines.pieces_of(io.BytesIO(lines(*rows).encode())))
    assert [count for count, _ in found] == [100, 2]
    assert [len(columns) for _, columns in found] == [1, 401]
    assert max(count * len(columns) for count, columns in found) <= 1000


def test_tables_are_small_where_other_rows_have_more_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfio_store.tables.formats import table_files

    monkeypatch.setattr(json_lines, "CELLS", 1000)
    cells = []
    table = table_files._table

    def made_table(*how: Any) -> Any:
        found = table(*how)
        cells.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(table_files, "_table", made_table)
    wide = {f"k{i}": [i] for i in range(400)}
    found = made(tmp_path, "jsonl", lines(*({"a": i} for i in range(100)), wide))
    assert found["a"].tolist() == [*range(100), None]
    assert len(found) == 401
    assert max(cells) <= 1000


def test_the_double_of_many_fields_is_found_in_linear_time() -> None:
    """In quadratic time it would take an hour."""
    names = [f"k{i:06d}" for i in range(400_000)]
    text = "{" + ",".join(f'"{name}":0' for name in [*names, names[-1]]) + "}\n"
    with pytest.raises(ValueError, match="two fields are named 'k399999'"):
        list(json_lines.pieces_of(io.BytesIO(text.encode())))
