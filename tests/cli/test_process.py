"""The command as a process: its imports, pipes, terminals and interrupts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RECORDS
from tests.support.framed import framed
from tests.support.started import python
from tests.support.terminal import COMMAND, on_terminal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "f.tfrecord"
    made.write_bytes(framed(RECORDS * 400))
    return made


def call(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,  # type: ignore[call-overload]
    )


def test_help_imports_nothing_heavy() -> None:
    heavy = ("numpy", "fsspec", "rich", "google_crc32c", "tfio_store.cli.commands")
    program = (
        "import sys; from tfio_store.cli.entry import main; main(['--help']); "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = python(program, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_the_extra_it_says_what_to_install() -> None:
    program = (
        "import importlib.util as u, sys; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'rich' else real(name, *a)\n"
        "from tfio_store.cli.entry import main; sys.exit(main(['--help']))"
    )
    done = python(program)
    assert done.returncode == 2
    assert done.stderr == "tfio-store: needs rich: pip install 'tfio_store[cli]'\n"


def test_as_a_module(path: Path) -> None:
    done = call("count", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12000\n", "")


def test_other_locales_and_names(tmp_path: Path) -> None:
    import tfio_store as tfs

    name = os.fsdecode(os.fsencode(tmp_path) + b"/f\xff")
    with open(name, "wb") as file:
        file.write(framed([tfs.encode_example({"x": "größer"})]))
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    command = [*COMMAND, "cat", name]
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.stdout.decode() == '{"x": "größer"}\n'
    command = [*COMMAND, "count", "--per-shard", name]
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.stdout == b"1\t" + os.fsencode(name) + b"\n"


def test_a_pipe_that_nobody_reads(path: Path) -> None:
    line = f"{' '.join(COMMAND)} cat {path} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == ["0"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_that_nobody_reads(monkeypatch: pytest.MonkeyPatch, unbuffered: str) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    for command in ("", "--help", "count --help"):
        line = f"{' '.join(COMMAND)} {command} | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_cat_streams(path: Path) -> None:
    """The first lines come while the last are not read yet."""
    with subprocess.Popen([*COMMAND, "cat", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b'{"')
        process.stdout.close()
        assert process.wait(60) == 0


WAITING = """
import sys, threading, tfio_store.tables.count as count
from tfio_store.cli import entry
def wait(*_, **__):
    print("begun", flush=True)
    threading.Event().wait()
count.count = wait
sys.argv = ["tfio-store", "count", "x"]
entry.script()
"""

COPYING = """
import sys, time
from tfio_store.cli import entry
from tfio_store.read.reader import RecordReader
real = RecordReader.batches
def slow(reader):
    for batch in real(reader):
        yield batch
        print("begun", flush=True)
        time.sleep(60)
RecordReader.batches = slow
sys.argv = ["tfio-store", "salvage", *sys.argv[1:]]
entry.script()
"""


def interrupted(program: str, *arguments: object, number: int = signal.SIGINT) -> tuple[int, bytes]:
    """The exit code and stderr of a process that gets a signal in the midst of its work."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == b"begun\n"
            process.send_signal(number)
            return process.wait(60), process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_on_a_terminal(columns: int, path: Path) -> None:
    shown = on_terminal(columns, ["head", "-n", "3", path])
    assert shown == (
        "id  ids     name   score\n"
        " 0  []      row 0      0\n"
        " 1  [0]     row 1   0.25\n"
        " 2  [0, 1]  row 2    0.5\n"
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_what_is_too_long_is_cut(columns: int, tmp_path: Path) -> None:
    import tfio_store as tfs

    made = tmp_path / "f"
    made.write_bytes(framed([tfs.encode_example({"text": "long " * 30, "esc": "\x1b[2J"})]))
    shown = on_terminal(columns, ["head", made])
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" in shown
    assert "\x1b" not in shown


def test_a_terminal_obeys_no_name(tmp_path: Path) -> None:
    """Names of features and of files are neither markup nor orders to the terminal."""
    import tfio_store as tfs

    made = tmp_path / "f\x1b]0;owned\x07"
    made.write_bytes(framed([tfs.encode_example({"emb[dim]": 1, "x[/b]": 2, "e\x1b]0;m\x07": 3})]))
    for command in ("head", "schema", "stats", "info"):
        shown = on_terminal(200, [command, made])
        assert not re.search("[\x1b\x07]", shown), command
        assert ("emb[dim]" in shown and "x[/b]" in shown) or command == "info"
    missing = on_terminal(200, ["count", f"{made}2"], code=3)
    assert not re.search("[\x1b\x07]", missing)


def ending(path: Path, command: str, closed: str) -> tuple[int, str, str]:
    """Of a command whose streams a shell has closed or led to a full disk."""
    line = f"exec {' '.join(COMMAND)} {command.format(path)} {closed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["cat {}", "count {}", "info {}", "get --raw {} 0", "head {}"])
def test_an_output_that_the_shell_closed(path: Path, command: str) -> None:
    """As any program says it: nobody may take nothing for all there is."""
    code, _, said = ending(path, command, ">&-")
    name = command.split()[0]
    assert (code, said) == (4, f"tfio-store {name}: standard output: Bad file descriptor\n")


def test_closed_streams_are_not_given_to_files(path: Path) -> None:
    """A file that got the number of the output would hold what is printed."""
    target = path.with_name("copied")
    command = f"copy --if-exists overwrite {{}} {target}"
    for closed in (">&-", "<&- >&- 2>&-"):
        code, _, _ = ending(path, command, closed)
        assert code == 4
        assert ending(path, f"diff {{}} {target}", "")[:2] == (0, "the same 12,000 records\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("errors", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_messages_that_nobody_takes(path: Path, errors: str) -> None:
    """They change neither the work nor the code that tells how it went."""
    assert ending(path, "count {}", errors) == (0, "12000\n", "")
    assert ending(path, "count --progress json {}", errors) == (0, "12000\n", "")
    assert ending(path, "count {}-none", errors) == (3, "", "")
    assert ending(path, "count {} --nonsense", errors) == (2, "", "")
    assert ending(path, "count --debug {}", f">/dev/full {errors}") == (4, "", "")


def test_an_interrupt_while_modules_are_imported() -> None:
    program = (
        "import os, signal\n"
        "from tfio_store.cli import entry\n"
        "entry.main = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "entry.script()"
    )
    done = python(program)
    assert (done.returncode, done.stderr) == (130, "")


def test_terminals_show_json_lines_of_cat(path: Path) -> None:
    assert on_terminal(80, ["cat", "--json", "-c", "id", path]).startswith('{"format"')
