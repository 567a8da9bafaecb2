"""`convert` of CSV with other delimiters, and of texts that gzip packs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.cli.conftest import Run

csv = pytest.importorskip("pyarrow.csv")

ROWS = {"id": [1, 2], "name": ["ada", "b;b"]}


def columns(url: Path) -> dict[str, list[object]]:
    return {name: values.tolist() for name, values in tfs.read_table(url).items()}


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_there_and_back(run: Run, tmp_path: Path, delimiter: str) -> None:
    source, back = tmp_path / "t.csv", tmp_path / "back.csv"
    source.write_text(f'id{delimiter}name\n1{delimiter}ada\n2{delimiter}"b;b"\n', encoding="utf-8")
    typed = "\\t" if delimiter == "\t" else delimiter
    assert run("convert", source, tmp_path / "train", "--delimiter", typed).code == 0
    assert columns(tmp_path / "train") == ROWS
    assert run("convert", tmp_path / "train", back, "--delimiter", typed).code == 0
    options = csv.ParseOptions(delimiter=delimiter)
    assert csv.read_csv(back, parse_options=options).to_pydict() == ROWS


@pytest.mark.parametrize("how", [(), ("--from", "csv")])
def test_a_tab_parts_the_fields_of_tsv(run: Run, tmp_path: Path, how: tuple[str, ...]) -> None:
    source, back = tmp_path / "t.tsv", tmp_path / "back.TSV"
    source.write_text("id\tname\n1\tada\n2\tb;b\n", encoding="utf-8")
    assert run("convert", source, tmp_path / "train", *how).code == 0
    assert columns(tmp_path / "train") == ROWS
    assert run("convert", tmp_path / "train", back).code == 0
    assert back.read_text(encoding="utf-8").splitlines()[1] == '1\t"ada"'


@pytest.mark.parametrize(
    ("name", "header", "option"),
    [
        ("t.csv", "id;z", "--delimiter ';' if"),
        ("t.csv", "id\tz", "--delimiter '\\t' if"),
        ("t.csv", "id|z", "--delimiter '|' if"),
        ("t.csv", "a|b;c;d", "--delimiter ';' if"),
        ("t.tsv", "id,z", "--delimiter , if"),
    ],
)
def test_one_column_that_looks_like_more_is_refused(
    run: Run, tmp_path: Path, name: str, header: str, option: str
) -> None:
    source, target = tmp_path / name, tmp_path / "train"
    source.write_text(f"{header}\n{header}\n", encoding="utf-8")
    answer = run("convert", source, target)
    assert answer.code == 2
    assert answer.err.startswith(f"tfio-store convert: {source}: cannot be read as csv: its header")
    assert option in answer.err
    given = "," if name.endswith("csv") else "\\t"
    assert run("convert", source, target, "--delimiter", given).code == 0
    assert list(columns(target)) == [header]


def test_one_plain_column_needs_no_delimiter(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n1;2\n", encoding="utf-8")
    assert run("convert", tmp_path / "t.csv", tmp_path / "train").code == 0


def test_delimiters_that_are_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n1\n", encoding="utf-8")
    (tmp_path / "t.jsonl").write_text('{"id": 1}\n', encoding="utf-8")
    for wrong in ("", ";;", "é", '"', "\n"):
        answer = run("convert", tmp_path / "t.csv", tmp_path / "train", "--delimiter", wrong)
        assert answer.code == 2
        assert "pass one character" in answer.err
    answer = run("convert", tmp_path / "t.jsonl", tmp_path / "train", "--delimiter", ";")
    assert answer.code == 2
    assert "--delimiter is for CSV" in answer.err


TEXTS = {
    "t.csv": 'id,name\n1,ada\n2,"b;b"\n',
    "t.tsv": "id\tname\n1\tada\n2\tb;b\n",
    "t.jsonl": '{"id": 1, "name": "ada"}\n{"id": 2, "name": "b;b"}\n',
}


@pytest.mark.parametrize("name", TEXTS)
def test_gzip_there_and_back(run: Run, tmp_path: Path, name: str) -> None:
    source, back = tmp_path / f"{name}.gz", tmp_path / f"back.{name}.gz"
    packed = gzip.compress(TEXTS[name].encode())
    source.write_bytes(packed)
    assert run("convert", source, tmp_path / "train").code == 0
    assert columns(tmp_path / "train") == ROWS
    assert run("convert", tmp_path / "train", back).code == 0
    once = back.read_bytes()
    assert "ada" in gzip.decompress(once).decode()
    assert run("convert", tmp_path / "train", back, "--if-exists", "overwrite").code == 0
    assert back.read_bytes() == once
    assert run("convert", back, tmp_path / "again").code == 0
    assert tfs.diff(tmp_path / "train", tmp_path / "again").same


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_gzip_by_its_first_bytes(run: Run, tmp_path: Path, name: str) -> None:
    source = tmp_path / "rows"
    half = len(TEXTS[name]) // 2  # gzip's files may be put one behind the other
    data = TEXTS[name].encode()
    source.write_bytes(gzip.compress(data[:half]) + gzip.compress(data[half:]))
    assert run("convert", source, tmp_path / "train", "--from", name[2:]).code == 0
    assert columns(tmp_path / "train") == ROWS


@pytest.mark.parametrize("damage", ["cut", "changed", "no header"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_damaged_gzip(run: Run, tmp_path: Path, name: str, damage: str) -> None:
    packed = bytearray(gzip.compress(TEXTS[name].encode() * 100_000))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    elif damage == "changed":
        packed[-6] ^= 1
    else:
        packed[2] = 77
    source = tmp_path / f"{name}.gz"
    source.write_bytes(packed)
    answer = run("convert", source, tmp_path / "train")
    assert answer.code == 2
    assert answer.err.startswith(f"tfio-store convert: {source}: cannot be read as {name[2:]}: ")
    assert not list(tmp_path.glob("*train*"))
