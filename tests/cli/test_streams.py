"""``-``: standard input for a source, and standard output for a file that is written."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, ROWS, Answer, Run
from tests.support.framed import framed
from tests.support.terminal import COMMAND, on_terminal

pytest.importorskip("pyarrow")

CSV = "id,name\n1,ada\n2,bob\n"
LINES = '{"id": 1, "name": "ada"}\n{"id": 2, "name": "bob"}\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file named - would lie here. Temporary files lie in a folder below."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(tfs.__file__).parents[1]))  # found from here too
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


def call(line: str, data: bytes = b"") -> Answer:
    """What a shell makes of this line, where ``tfs`` is the command."""
    done = subprocess.run(
        ["bash", "-c", f'tfs() {{ {" ".join(COMMAND)} "$@"; }}; {line}'],
        input=data,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Standard input, which can be read once."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(_Once(io.BytesIO(data))))


class _Once(io.BufferedReader):
    def seekable(self) -> bool:
        return False


def columns(url: Any) -> dict[str, list[object]]:
    return {name: values.tolist() for name, values in tfs.read_table(url).items()}


@pytest.mark.parametrize(("form", "text"), [("csv", CSV), ("jsonl", LINES)])
def test_convert_in_a_pipe(here: Path, form: str, text: str) -> None:
    answer = call(
        f"cat | tfs convert - train --from {form} && tfs convert train - --to {form}",
        text.encode(),
    )
    assert answer.code == 0
    assert answer.out == "train: 2 rows as tfrecord\n" + text.replace(
        "id,name", '"id","name"'
    ).replace(",ada", ',"ada"').replace(",bob", ',"bob"')
    assert answer.err == f"standard output: 2 rows as {form}\n"
    assert sorted(path.name for path in here.iterdir()) == [
        "_train.index", "_train.manifest.json", "tmp", "train-00000.tfrecord",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "arrow", "webdataset"])
def test_every_format_is_printed(here: Path, form: str) -> None:
    tfs.write_table({"id": [1, 2]}, "train")
    assert call(f"tfs convert train - --to {form} > there").code == 0
    assert call(f"tfs convert train apart --to {form}").code == 0
    if form == "webdataset":
        assert Path("there").stat().st_size > 0
    else:
        assert Path("there").read_bytes() == Path("apart").read_bytes()
    assert call(f"tfs convert - again --from {form} < there").code == 0
    assert tfs.count("again") == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_beside_files(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, pack: Any
) -> None:
    Path("more.csv").write_text("id,name\n3,cleo\n", encoding="utf-8")
    typed(monkeypatch, pack(CSV.encode()))
    assert run("convert", "more.csv", "-", "train", "--from", "csv").code == 0
    assert columns("train") == {"id": [3, 1, 2], "name": ["cleo", "ada", "bob"]}
    assert not list((here / "tmp").iterdir())


def test_records_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, gzip.compress(framed(RECORDS)))
    assert run("convert", "-", "x.jsonl", "--from", "tfrecord").code == 0
    assert list(map(json.loads, Path("x.jsonl").read_text("utf-8").splitlines())) == ROWS


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("convert", "train", "-"), "say what to print, such as --to csv"),
        (("convert", "train", "-", "--to", "csv", "--json"), "does not go with -"),
        (("convert", "-", "x"), "say what standard input is, such as --from csv"),
        (("convert", "-", "-", "x", "--from", "csv"), "can be read once"),
        (("convert", "train", "-", "--to", "tfrecord"), "exactly one side must be TFRecord"),
        (("convert", "-", "-", "--from", "csv", "--to", "tfrecord"), "dataset takes a name"),
        (("cat", "train", "-"), "name no other source beside it"),
        (("count", "-"), "./- for a file of that name"),
        (("get", "-", "1"), "./- for a file of that name"),
        (("copy", "train", "-"), "./- for a file of that name"),
        (("copy", "train", "-", "x"), "./- for a file of that name"),
        (("diff", "train", "-"), "./- for a file of that name"),
    ],
)
def test_what_is_refused(
    run: Run,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    tfs.write_table({"id": [1, 2]}, "train")
    typed(monkeypatch, CSV.encode())
    answer = run(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert not Path("-").exists()


def test_a_file_of_that_name(run: Run) -> None:
    tfs.write_table({"id": [1, 2]}, "train")
    assert run("convert", "train", "./-", "--to", "jsonl").code == 0
    assert run("convert", "./-", "again", "--from", "jsonl").code == 0
    assert run("count", "again").out == "2\n"


def test_an_output_that_nobody_reads() -> None:
    tfs.write_table({"id": range(100_000)}, "train")
    for form in ("csv", "jsonl", "parquet", "webdataset"):
        answer = call(f"tfs convert train - --to {form} | true; exit ${{PIPESTATUS[0]}}")
        assert (answer.code, answer.out) == (0, "")
        assert "Error" not in answer.err


def test_a_full_disk_behind_the_output() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    tfs.write_table({"id": [1, 2]}, "train")
    for form in ("csv", "jsonl"):
        answer = call(f"tfs convert train - --to {form} > /dev/full")
        assert answer.code == 4
        assert answer.err.startswith("tfio-store convert: standard output: No space left")


def test_a_terminal_gets_no_orders() -> None:
    tfs.write_table({"name": ["a\033[2Jb"]}, "train")
    told = on_terminal(80, ["convert", "train", "-", "--to", "csv"])
    assert '"a\N{REPLACEMENT CHARACTER}[2Jb"' in told


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_records_in_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch, pack: Any) -> None:
    data = pack(framed(RECORDS))
    Path("f").write_bytes(data)
    for arguments in (
        ("head", "-n", "3"),
        ("head", "-n", "0"),
        ("tail", "-n", "2"),
        ("tail", "-n", "99"),
        ("cat",),
        ("head", "-c", "id,ids", "--json"),
        ("sample", "-n", "99"),
    ):
        typed(monkeypatch, data)
        answer = run(*arguments, "-")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == run(*arguments, "f").out
    typed(monkeypatch, data)
    assert len(run("sample", "-", "-n", "4", "--seed", "1").lines) == 4
    assert call("tfs cat --raw - < f > raw").code == 0
    assert Path("raw").read_bytes() == b"".join(RECORDS)


def test_sparse_features_in_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 1,000 records say what is a list, in a pipe as in a file."""
    rows = [{"x": [i]} for i in range(900)] + [{"x": [1, 2], "y": 1}] + [{"x": [5]}] * 3000
    data = framed([tfs.encode_example(row) for row in rows])
    Path("f").write_bytes(data)
    typed(monkeypatch, data)
    assert run("cat", "-").out == run("cat", "f").out


def test_damage_in_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(framed(RECORDS))
    data[-6] ^= 1
    typed(monkeypatch, bytes(data))
    answer = run("cat", "-")
    assert answer.code == 1
    assert len(answer.lines) == len(RECORDS) - 1
    typed(monkeypatch, framed([*RECORDS, b"\xff\xff\xff"]))
    answer = run("cat", "-")
    assert answer.code == 5
    assert f"record {len(RECORDS)} is not" in answer.err


def test_head_leaves_the_rest_of_a_pipe() -> None:
    Path("f").write_bytes(framed(RECORDS * 40))
    answer = call("while cat f; do :; done 2>/dev/null | tfs head -n 1 -")
    assert (answer.code, answer.lines) == (0, ROWS[:1])


@pytest.mark.parametrize("name", ["/dev/stdin", "<(cat f)"])
def test_a_pipe_by_its_name(name: str) -> None:
    Path("f").write_bytes(framed(RECORDS))
    for command in (f"head {name}", f"convert {name} x.jsonl --from tfrecord"):
        answer = call(f"cat f | tfs {command}")
        assert answer.code == 2
        assert "not a regular file" in answer.err
        assert "write it to a file" in answer.err
        assert "- is standard input" in answer.err


def test_standard_output_by_its_name() -> None:
    tfs.write_table({"id": [1, 2]}, "train")
    answer = call("tfs convert train /dev/stdout --to csv | cat; exit ${PIPESTATUS[0]}")
    assert (answer.code, answer.out) == (2, "")
    assert "standard output to convert" in answer.err
