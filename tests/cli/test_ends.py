"""How commands end that cannot do their work: the exit code, one line, and nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RECORDS, Answer, Run
from tests.cli.test_process import COPYING, WAITING, interrupted
from tests.servers.place import Place
from tests.storage.test_secrets import server
from tests.support.framed import framed
from tests.support.terminal import COMMAND


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "f"
    made.write_bytes(framed(RECORDS))
    return made


def files(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def ends(answer: Answer, code: int, *says: object) -> None:
    """With this code, and one line that says all of these."""
    assert answer.code == code
    (line,) = answer.err.splitlines()
    assert line.startswith("tfio-store")
    for each in says:
        assert str(each) in line


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, b"tfio-store: interrupted\n"),
        (signal.SIGTERM, 143, b"tfio-store: terminated\n"),
        (signal.SIGHUP, 129, b"tfio-store: terminated\n"),
    ],
)
def test_signals(tmp_path: Path, path: Path, number: int, code: int, said: bytes) -> None:
    assert interrupted(WAITING, number=number) == (code, said)
    assert interrupted(COPYING, path, tmp_path / "new/train", number=number) == (code, said)
    assert files(tmp_path) == ["f"]


def test_a_killed_copy_is_not_there_and_clean_removes_it(
    run: Run, tmp_path: Path, path: Path
) -> None:
    target = tmp_path / "new/train"
    code, said = interrupted(COPYING, path, target, number=signal.SIGKILL)
    assert (code, said) == (-signal.SIGKILL, b"")
    ends(run("count", target), 3, target)
    assert run("clean", target, "--older-than", "0", "--yes").code == 0
    assert files(tmp_path) == ["f"]


@pytest.mark.parametrize("command", [["copy"], ["salvage"], ["convert", "--to", "jsonl"]])
def test_a_full_disk(
    run: Run, tmp_path: Path, path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Any, data: bytes) -> None:
        if len(data) > 1000:  # a claim still fits
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.write(data)

    monkeypatch.setattr("tfio_store.storage.local.write_all", full)
    target = tmp_path / "new/train"
    ends(run(*command, path, target), 4, target, "No space left on device")
    assert files(tmp_path) == ["f"]


def test_a_store_whose_connection_breaks(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its errno is that of an output that nobody reads."""

    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE), "s3://bucket/x")

    monkeypatch.setattr("tfio_store.tables.count.count", broken)
    ends(run("count", path), 4, "s3://bucket/x", "Broken pipe")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["cat", "count", "info"])
def test_an_output_that_is_full(path: Path, command: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, command, path], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert line == f"tfio-store {command}: standard output: No space left on device".encode()


@pytest.mark.parametrize("command", ["count", "info", "cat", "verify", "stats"])
def test_wrong_credentials(run: Run, command: str) -> None:
    pytest.importorskip("s3fs")
    with server(403, {}, b"<Error>no</Error>") as host:
        options = {"endpoint_url": f"http://{host}", "key": "k", "secret": "S3CR3T"}
        answer = run(command, "s3://bucket/f", "-o", json.dumps(options))
    ends(answer, 3, "s3://bucket/", "Permission denied")


def test_a_target_that_is_forbidden(
    run: Run, path: Path, s3: Place, shaped: Callable[..., Any]
) -> None:
    denying = shaped(s3.endpoint, p_deny=1.0)
    options = json.dumps({**s3.storage_options, "endpoint_url": denying.endpoint})
    ends(run("copy", path, s3.url("train"), "--target-options", options), 3, s3.url(""))
    assert s3.names() == []


@pytest.mark.parametrize("command", ["copy", "salvage"])
def test_a_target_in_a_missing_bucket(run: Run, path: Path, s3: Place, command: str) -> None:
    options = json.dumps(s3.storage_options)
    answer = run(command, path, "s3://no-such-bucket-here/train", "--target-options", options)
    ends(answer, 3, "s3://no-such-bucket-here/")


EMPTY: dict[str, tuple[int, str]] = {
    "count": (0, "0\n"),
    "head": (0, ""),
    "tail": (0, ""),
    "sample": (0, ""),
    "cat": (0, ""),
    "verify": (0, "0 sound records, 0 bytes\n"),
}


@pytest.mark.parametrize("command", EMPTY)
def test_an_empty_file(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "f").write_bytes(b"")
    answer = run(command, tmp_path / "f")
    assert (answer.code, answer.out, answer.err) == (*EMPTY[command], "")


def test_an_empty_file_has_no_schema(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    ends(run("schema", tmp_path / "f"), 5, tmp_path / "f", "there are no records")
    ends(run("convert", tmp_path / "f", tmp_path / "x.csv"), 5, tmp_path / "f")
    ends(run("get", tmp_path / "f", "0"), 2, "there is no record 0: the source has 0 records")
    assert run("stats", tmp_path / "f", "--json").document["features"] == {}
    assert run("info", tmp_path / "f", "--json").document["nbytes"] == 0
    assert run("diff", tmp_path / "f", tmp_path / "f").code == 0
    assert run("copy", tmp_path / "f", tmp_path / "new/t").code == 0


def test_a_second_signal_while_it_takes_back_what_it_began() -> None:
    program = (
        "from tfio_store.cli import Signalled, entry\n"
        "def main(): raise Signalled(2)\n"
        "entry.main = main; entry.script()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
