"""What a newcomer meets: examples in the help, and guesses at what was meant."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click
import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, Run
from tests.support.cli_page import make_sources
from tests.support.framed import framed
from tfio_store.cli.entry import main
from tfio_store.cli.program import COMMANDS, program


def examples_of(command: str) -> list[str]:
    found = program.get_command(click.Context(program), command)
    assert found is not None
    assert found.epilog is not None
    _, title, *lines = found.epilog.splitlines()
    assert title == "Examples:"
    return [line.strip() for line in lines]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples name; and a bucket in it."""
    monkeypatch.chdir(tmp_path)
    make_sources()
    tfs.copy("train", "bucket/train")
    tfs.copy("train", "more/train")
    with tfs.TFRecordWriter("old/b.tfrecord.gz", "GZIP") as writer:
        writer.write(RECORDS[0])
    (tmp_path / "table.csv").write_text("price,name\n1.5,ada\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_run(
    command: str, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = examples_of(command)
    assert len(lines) == 2
    for line in lines:
        name, *arguments = shlex.split(line.replace("s3://bucket", f"{folder}/bucket"))
        assert name == "tfio-store"
        assert arguments[0] == command
        ended = 1 if "damaged" in line and command == "salvage" else 0  # of what it lost
        assert main(arguments) == ended, capsysbinary.readouterr().err


def test_help_shows_them(run: Run) -> None:
    shown = run("head", "--help").out
    assert shown.endswith(
        "  Examples:\n"
        "    tfio-store head -n 3 s3://bucket/train\n"
        "    tfio-store head -c id,name train\n"
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("hed f", "No such command 'hed'; did you mean 'head'?"),
        ("repair f", "No such command 'repair'; did you mean 'salvage'?"),
        ("head --colums x f", "No such option '--colums'; did you mean '--columns'?"),
        ("head --feature x f", "No such option '--feature'; did you mean --columns?"),
        ("copy --overwrite f g", "'--overwrite'; did you mean --if-exists overwrite?"),
        ("count --overwrite f", "No such option '--overwrite' (see tfio-store count --help)"),
        ("convert --to parqet f g", "'webdataset'; did you mean 'parquet' (see"),
        ("-q head f", "-q stands after the command: tfio-store COMMAND -q"),
        (
            "head -c nmae f",
            "no feature 'nmae'; did you mean 'name'? There are id, ids, name, score",
        ),
        ("convert -c nmae f g.csv", "no feature 'nmae'; did you mean 'name'?"),
        ("head {}/flie", "no dataset of this name (did you mean {}/file?)"),
    ],
)
def test_did_you_mean(
    run: Run, tmp_path: Path, typed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("f", "file"):
        (tmp_path / name).write_bytes(framed(RECORDS))
    answer = run(*typed.format(tmp_path).split())
    assert answer.code in (2, 3)
    assert said.format(tmp_path) in answer.err
    assert answer.err.count("\n") == 1


def test_no_progress_without_a_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfio_store.cli.output._FIRST", 0.0)
    (tmp_path / "f").write_bytes(framed(RECORDS))
    for line in ("verify f", "count f", "stats f", "copy f t", "convert t t.jsonl", "report t"):
        name, *rest = line.split()
        out = ["-o", tmp_path / "page.html"] if name == "report" else []
        answer = run(name, *(tmp_path / each for each in rest), *out)
        assert (answer.code, answer.err) == (0, "")


def test_a_table_without_pyarrow(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = run("convert", tmp_path / "a.csv", tmp_path / "t")
    assert answer.code == 2
    assert "pyarrow is needed: pip install 'tfio_store[arrow]'" in answer.err


def test_a_table_in_place_of_records(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    answer = run("head", tmp_path / "a.csv")
    assert answer.code == 5
    assert "the file looks like CSV; tfio-store convert makes a dataset of it" in answer.err


def test_h_is_help_everywhere(run: Run) -> None:
    assert run("-h").out == run("--help").out != ""
    for command in COMMANDS:
        assert run(command, "-h").out == run(command, "--help").out != ""
