"""Errors speak of what one types."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, Run
from tests.support.framed import framed
from tfio_store.cli.failures import in_the_shell
from tfio_store.cli.program import program


@pytest.mark.parametrize(
    ("command", "said", "meant"),
    [
        ("copy", 'exists; pass if_exists="overwrite"', "exists; pass --if-exists overwrite"),
        ("copy", 'it, or if_exists="append" to add', "it, or --if-exists append to add"),
        ("copy", "num_shards must be 1", "--num-shards must be 1"),
        ("copy", "target_compression='X': no", "--compression X: no"),
        ("convert", "source= is csv, target= is csv", "SOURCE... is csv, TARGET is csv"),
        ("convert", "source_format=: pass", "--from: pass"),
        ("convert", "schema={'x': 'int64'} is", '--schema \'{"x": "int64"}\' is'),
        ("convert", "schema={'x': ...} is", '--schema \'{"x": "..."}\' is'),
        ("convert", "schema={'x': 'int64', ...} is", "schema={'x': 'int64', ...} is"),
        ("convert", "; copy() makes one", "; tfio-store copy makes one"),
        ("verify", "quick=True compares", "--quick compares"),
        ("head", "read it with RecordReader", "read it with tfio-store cat --raw"),
        ("head", "storage_options= takes", "--storage-options takes"),
        ("head", "backend='obstore' needs", "--backend obstore needs"),
        ("get", "copy it with tfio_store.copy(), which", "copy it with tfio-store copy, which"),
        ("count", "with tfio_store.build_index", "with tfio-store index"),
        # what is no argument stays
        ("head", "/data/RecordReader/copy(): no", "/data/RecordReader/copy(): no"),
        ("head", "s3://b/backend=x/f?columns=3: no", "s3://b/backend=x/f?columns=3: no"),
        ("head", "num_shards must be 1", "num_shards must be 1"),
    ],
)
def test_words(command: str, said: str, meant: str) -> None:
    found = program.get_command(click.Context(program), command)
    assert in_the_shell(said, found) == meant


def test_a_target_that_exists(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed(RECORDS))
    for command in ("copy", "salvage"):
        target = tmp_path / command
        assert run(command, tmp_path / "f", target).code == 0
        answer = run(command, tmp_path / "f", target)
        assert answer.code == 2
        assert "--if-exists" in answer.err
        assert "if_exists" not in answer.err


def test_both_sides_are_datasets(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed(RECORDS))
    answer = run("convert", tmp_path / "f", tmp_path / "train")
    assert answer.code == 2
    assert "SOURCE... is tfrecord" in answer.err
    assert "tfio-store copy makes a dataset of datasets" in answer.err


def test_a_long_record(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed([tfs.encode_example({"x": b"x" * 1000})]))
    for command in ("count", "head", "verify", "stats", "schema"):
        answer = run(command, tmp_path / "f", "--max-record-bytes", "1kB")
        if command == "verify":
            assert "more bytes than --max-record-bytes allows" in answer.out
            continue
        assert answer.code == 5
        assert "--max-record-bytes" in answer.err
