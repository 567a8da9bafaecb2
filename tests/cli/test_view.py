"""`tfio-store view` as a process: what it prints, whom it serves, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from http.cookiejar import CookieJar
from importlib import util
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import tfio_store as tfs
from tests.cli.conftest import Run, validated
from tests.support.terminal import COMMAND

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = str(tmp_path / "train")
    tfs.write_table({"x": [1, 2, 3]}, made)
    return made


@contextlib.contextmanager
def viewing(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command at work, and the first line that it prints."""
    argv = [*COMMAND, "view", *map(str, arguments)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def browser() -> Any:
    """What keeps cookies and follows redirects, and asks no proxy."""
    cookies = urllib.request.HTTPCookieProcessor(CookieJar())
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end(url: str, number: signal.Signals) -> None:
    with viewing(url) as (process, line):
        opened = browser()
        page = opened.open(line)
        assert page.url == line.partition("?")[0]
        assert b"view/view.js" in page.read()
        records = urlsplit(line)._replace(path="/api/records", query="").geturl()
        while True:
            with contextlib.suppress(urllib.error.HTTPError):  # while the source is being opened
                assert json.load(opened.open(records))["of"] == 3
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 128 + number
    assert out == ""
    assert err == f"tfio-store: {'interrupted' if number == signal.SIGINT else 'terminated'}\n"


def test_it_ends_while_a_store_does_not_answer(tmp_path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(tmp_path / "f")
    with viewing(tmp_path / "f") as (process, line):
        browser().open(line)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 130


def test_json(url: str) -> None:
    with viewing(url, "--json", "--no-open", "--seed", 7, "--blocks", 3) as (_, line):
        document = validated(json.loads(line))
        opened = browser()
        opened.open(document["url"])
        facts = urlsplit(document["url"])._replace(path="/api/facts", query="").geturl()
        told = json.load(opened.open(facts))
        assert (told["seed"], told["blocks"]) == (7, 3)


def test_the_log_shows_no_token(url: str) -> None:
    with viewing(url) as (process, line):
        browser().open(line)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert line.partition("token=")[2] not in out + err


def test_a_port_that_is_taken(run: Run, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = run("view", url, "--port", port)
    assert answer.code != 0
    assert f"port {port} cannot be used" in answer.err
    assert "0 for any" in answer.err


def test_without_the_extra_it_says_what_to_install(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = util.find_spec
    monkeypatch.setattr(
        "tfio_store.cli.commands.view.find_spec",
        lambda name: None if name == "uvicorn" else find(name),
    )
    answer = run("view", url)
    assert answer.code == 2
    assert answer.err == "tfio-store view: needs uvicorn: pip install 'tfio-store[view]'\n"


@pytest.mark.parametrize("option", [("--port", "65536"), ("--blocks", "0"), ("--seed", "-1")])
def test_wrong_numbers(run: Run, url: str, option: tuple[str, str]) -> None:
    answer = run("view", url, *option)
    assert answer.code == 2
    assert option[0] in answer.err


def test_help_imports_no_server() -> None:
    program = (
        "import sys; from tfio_store.cli.entry import main; main(['view', '--help']); "
        "print([m for m in ('starlette', 'uvicorn', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("option", ["--open", "--no-open", None])
def test_a_browser_gets_an_address_that_works_once(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch, option: str | None
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: shown.append(url) or True)
    monkeypatch.setattr("tfio_store.show.server.running.Running.wait", lambda running: None)
    answer = run("view", url, *([option] if option else []))
    assert answer.code == 0
    assert len(shown) == (option == "--open")  # what a test prints to is no terminal
    assert answer.out.strip() not in shown
