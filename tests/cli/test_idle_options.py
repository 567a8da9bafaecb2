"""Options that would do nothing are wrong usage, and errors name the file."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs
from tests.cli.conftest import Run
from tests.support.framed import framed


@pytest.mark.parametrize(
    "options",
    [
        ("--compression", "GZIP"),
        ("--num-shards", "5"),
        ("--max-shard-bytes", "5MB"),
        ("--schema", '{"x": "int64"}'),
        ("--flatten",),
    ],
)
def test_a_file_takes_no_option_of_a_dataset(
    run: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    tfs.write_table({"x": [1]}, str(tmp_path / "train"))
    answer = run("convert", tmp_path / "train", tmp_path / "x.jsonl", *options)
    assert answer.code == 2
    assert options[0] in answer.err
    assert not (tmp_path / "x.jsonl").exists()


def test_pairs_that_do_not_go(run: Run, tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1]}, url)
    for arguments in (
        ("cat", url, "--raw", "--json"),
        ("head", url, "--raw", "-c", "x"),
        ("schema", url, "--json", "--format", "tf"),
    ):
        answer = run(*arguments)
        assert (answer.code, answer.out) == (2, "")


def test_a_pattern_of_files(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"x\n{name}\n", encoding="utf-8")
    assert run("convert", f"{tmp_path}/?.csv", tmp_path / "train").code == 0
    assert tfs.count(str(tmp_path / "train")) == 2


def test_records_that_are_no_examples(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "early.tfrecord"
    records = [tfs.encode_example({"x": i}) for i in range(9)]
    path.write_bytes(framed([*records[:5], b"\xff\xff\xff", *records[5:]]))
    assert run("tail", path, "-n", "1").lines == [{"x": 8}]
    for arguments in (("cat", path), ("convert", path, tmp_path / "x.jsonl")):
        answer = run(*arguments)
        assert answer.code == 5
        assert f"{path}: record 5 is not" in answer.err


def test_the_number_of_a_late_record(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "late.tfrecord"
    path.write_bytes(framed([tfs.encode_example({"x": 1})] * 5000 + [b"\xff\xff\xff"]))
    answer = run("cat", path)
    assert answer.code == 5
    assert f"{path}: record 5000 is not" in answer.err
