"""What goes wrong: one line on stderr, and an exit code that says what kind it is."""

from __future__ import annotations

import errno
import json
import warnings
from pathlib import Path
from typing import Any

import click
import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, Kept, Run, keep
from tests.servers.place import Place
from tests.support.framed import framed
from tfio_store.cli.failures import exit_code
from tfio_store.cli.options import duration, parse_options, size
from tfio_store.errors import Reason

PNG = b"\x89PNG\r\n\x1a\n" + bytes(500)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (tfs.TruncatedRecordError("the data ends inside a record", path="f", offset=7), 1),
        (tfs.CorruptRecordError("…", path="f", offset=7, kind=Reason.LENGTH_CRC), 1),
        (tfs.CorruptRecordError("…", path="f", offset=0, kind=Reason.LENGTH_CRC), 5),
        (tfs.CorruptRecordError("the checksum of a record's data …", path="f", offset=0), 1),
        (tfs.ManifestError("x"), 5),
        (tfs.errors.NoRecordsError("x"), 5),
        (tfs.SchemaError("x", feature="f", record=1), 5),
        (tfs.errors.RecordTooLargeError(path="f", offset=1, length=9, limit=3), 5),
        (ValueError("x"), 2),
        (IndexError("x"), 2),
        (ImportError("x"), 2),
        (FileExistsError("x"), 2),
        (click.UsageError("x"), 2),
        (FileNotFoundError("x"), 3),
        (IsADirectoryError("x"), 3),
        (NotADirectoryError("x"), 3),
        (PermissionError("x"), 3),
        (TimeoutError("x"), 4),
        (ConnectionError("x"), 4),
        (OSError(errno.ENOSPC, "No space left on device"), 4),
        (AssertionError("x"), 70),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    assert exit_code(error) == code


COMMANDS = [
    ["count"], ["info"], ["schema"], ["head"], ["tail"], ["sample"], ["cat"], ["verify"],
    ["get", "0"],
]  # fmt: skip


def said(run: Run, command: list[str], url: object, *options: str) -> tuple[int, str]:
    """The exit code and the one line on stderr."""
    answer = run(command[0], url, *command[1:], *options)
    assert answer.out == ""
    (line,) = answer.err.splitlines()
    assert line.startswith(f"tfio-store {command[0]}: ")
    return answer.code, line


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_what_is_not_there(run: Run, command: list[str], tmp_path: Path) -> None:
    code, line = said(run, command, tmp_path / "none")
    assert code == 3
    assert str(tmp_path / "none") in line


@pytest.mark.parametrize("command", [["count"], ["cat"], ["verify"]], ids=lambda c: c[0])
def test_a_missing_bucket(run: Run, command: list[str], s3: Place) -> None:
    options = ["-o", json.dumps(s3.storage_options)]
    code, line = said(run, command, "s3://no-such-bucket-here/train", *options)
    assert code == 3
    assert "s3://no-such-bucket-here/train" in line


@pytest.mark.parametrize(
    "command",
    [
        *(each for each in COMMANDS if each[0] not in ("info", "verify")),
        ["stats"], ["copy", "new"], ["index", "--as", "new"],
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_a_png(
    run: Run, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    code, line = said(run, command, path)
    assert code == 5
    assert f"{path}" in line
    assert "looks like a PNG image" in line
    assert list(tmp_path.iterdir()) == [path]


def test_verify_tells_what_a_png_is(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    answer = run("verify", path)
    assert answer.code == 5
    assert "looks like a PNG image" in answer.out
    (tmp_path / "sound").write_bytes(framed(RECORDS))
    assert run("verify", tmp_path / "sound", path).code == 1


def test_a_png_in_place_of_a_shard_is_damage(run: Run, tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, str(tmp_path / "train"), num_shards=1)
    (tmp_path / "train-00000-of-00001.tfrecord").write_bytes(PNG)
    assert run("verify", tmp_path / "train").code == 1


def test_damage_ends_a_cat_behind_what_was_sound(run: Run, tmp_path: Path) -> None:
    path, data = tmp_path / "f", bytearray(framed(RECORDS))
    data[-30] ^= 1
    path.write_bytes(data)
    assert run("cat", path).code == 1


def test_a_manifest_that_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "_train.manifest.json").write_bytes(b"{}")
    assert said(run, ["count"], tmp_path / "train")[0] == 5


def test_errors_as_json(run: Run, tmp_path: Path) -> None:
    answer = run("count", tmp_path / "none", "--json")
    assert answer.code == 3
    (found,) = answer.told
    assert (found["format"], found["version"], found["command"]) == ("tfio_store.cli", 1, "count")
    assert found["error"]["kind"] == "FileNotFoundError"
    assert found["error"]["exit_code"] == 3
    assert found["error"]["path"] == str(tmp_path / "none")


def test_a_traceback_comes_when_asked_for(run: Run, tmp_path: Path) -> None:
    assert "Traceback" in run("count", tmp_path / "none", "--debug").err


def test_faults_of_the_program_say_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("nobody thought of this")

    monkeypatch.setattr("tfio_store.tables.count.count", fail)
    answer = run("count", "x")
    assert answer.code == 70
    assert "nobody thought of this (a fault of this program; --debug shows where)" in answer.err


def test_usage(run: Run) -> None:
    assert said(run, ["count"], "--nonsense")[0] == 2
    answer = run("nonsense")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "tfio-store: No such command 'nonsense' (see tfio-store --help)\n"
    assert run().code == 0
    assert "Exit codes" in run("--help").out


def test_warnings_are_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: Any, **__: Any) -> int:
        warnings.warn("mind this", RuntimeWarning, stacklevel=2)
        return 0

    monkeypatch.setattr("tfio_store.tables.count.count", warn)
    assert run("count", "x").err == "tfio-store: warning: mind this\n"
    assert run("count", "-q", "x").err == ""


def test_progress_as_json(run: Run, tmp_path: Path) -> None:
    kept: Kept = keep("manifest raw", Place(str(tmp_path)))
    answer = run("verify", kept.url, "--progress", "json")
    told = [each["progress"] for each in answer.told]
    assert told[-1]["records"] == told[-1]["whole"] == 30
    assert run("verify", kept.url, "--progress", "json", "-q").err == ""


def test_a_bar_on_a_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Kept = keep("manifest raw", Place(str(tmp_path)))
    (tmp_path / "f").write_bytes(framed(RECORDS))
    monkeypatch.setattr("tfio_store.cli.output._FIRST", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    answer = run("verify", kept.url)
    assert answer.out.startswith("30 sound records")
    assert "records/s" in answer.err
    assert run("verify", kept.url, "--progress", "none").err == ""
    assert "1/1" in run("count", tmp_path / "f").err
    assert "records/s" in run("diff", tmp_path / "f", tmp_path / "f").err


def test_secrets_are_not_shown(run: Run, tmp_path: Path) -> None:
    target = f"{tmp_path}/train?signature=S3CR3T"
    (tmp_path / "f").write_bytes(framed(RECORDS))
    for command in (["copy", tmp_path / "f", target], ["index", tmp_path / "f", "--as", target]):
        answer = run(*command, "--json", "-o", "secret=S3CR3T")
        assert "S3CR3T" not in answer.out + answer.err
    answer = run("count", "s3://none/train", "-o", "nonsense=S3CR3T", "-o", "S3CR3T", "--debug")
    assert answer.code == 2
    assert "S3CR3T" not in answer.err.splitlines()[-1]


def test_storage_options(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text('{"endpoint_url": "http://x", "key": "k"}', encoding="utf-8")
    found = parse_options((f"@{path}", "key=0123=", "anon=true", 'client_kwargs={"a": 1}'))
    assert found == {
        "endpoint_url": "http://x",
        "key": "0123=",
        "anon": True,
        "client_kwargs": {"a": 1},
    }
    assert parse_options(()) is None
    for wrong in ("secret", "=secret", '{"secret', "@/none"):
        with pytest.raises(click.UsageError) as caught:
            parse_options((wrong,))
        assert "secret" not in caught.value.format_message()


def test_sizes_and_times() -> None:
    texts = ("1000", "64MB", "256MiB", "1.5GiB", "2k")
    assert [size(None, None, text) for text in texts] == [
        1000, 64_000_000, 256 << 20, 3 << 29, 2000,
    ]  # fmt: skip
    assert [duration(None, None, text) for text in ("90", "15m", "2h", "1d")] == [
        90, 900, 7200, 86400,
    ]  # fmt: skip
    for wrong in ("", "MB", "1XB"):
        with pytest.raises(click.BadParameter):
            size(None, None, wrong)


def test_a_number_that_looks_like_an_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed(RECORDS))
    code, text = said(run, ["get"], tmp_path / "f", "-1")
    assert (code, "-1 looks like an option; put -- before it" in text) == (2, True)


def test_a_target_whose_name_tells_no_format(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed(RECORDS))
    code, text = said(run, ["convert"], tmp_path / "f", str(tmp_path / "rows.xlsx"))
    assert (code, "ends in .parquet, .csv, .tsv, .jsonl or .arrow" in text) == (2, True)


def test_s3_without_credentials(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no failure of the store, which nobody has asked."""
    pytest.importorskip("s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    code, text = said(run, ["head"], "s3://bucket/train", "-o", "use_listings_cache=false")
    assert code == 3
    assert "no credentials were found" in text
    assert "as --storage-options, where s3fs takes key=, secret= and anon=true" in text


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("count", "x"), "-o"),
        (("report", "x"), "--storage-options"),
        (("report", "x"), "--target-options"),
        (("diff", "x", "y"), "--other-options"),
        (("copy", "x", "y"), "--target-options"),
        (("salvage", "x", "y"), "--target-options"),
        (("convert", "x", "y"), "--target-options"),
    ],
)
@pytest.mark.parametrize("wrong", ["a", "@/none", '{"a'])
def test_an_option_that_holds_none_is_named(
    run: Run, command: tuple[str, ...], option: str, wrong: str
) -> None:
    answer = run(*command, option, wrong)
    named = "--storage-options" if option == "-o" else option
    assert answer.code == 2
    assert answer.err.startswith(f"tfio-store {command[0]}: {named}")
