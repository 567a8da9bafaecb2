"""`docs/cli.schema.json`: what the commands print with --json. Every document that a test of the
commands looks at is held to it; here each command prints one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import DOCUMENTS, RECORDS, Run
from tests.support.framed import framed
from tfio_store.cli.program import COMMANDS

CALLS: dict[str, list[str]] = {
    "info": ["f", "--shards"],
    "count": ["f", "--per-shard"],
    "schema": ["f"],
    "stats": ["f"],
    "report": ["f", "-o", "report.html"],
    "head": ["f"],
    "tail": ["f", "--bytes", "size"],
    "sample": ["f", "--bytes", "base64"],
    "cat": ["f"],
    "get": ["f", "0,-1"],
    "verify": ["damaged"],
    "salvage": ["damaged", "out/train"],
    "index": ["f", "--as", "train"],
    "clean": ["f"],
    "copy": ["f", "out/train"],
    "diff": ["f", "damaged0"],
    "convert": ["f", "f.jsonl"],
    "doctor": ["train"],
}


WITHOUT = ("completion",)
"""Those that print none."""


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in WITHOUT])
def test_documents(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    data = framed(RECORDS)
    Path("f").write_bytes(data)
    Path("damaged").write_bytes(data[:200] + b"?" + data[201:])
    Path("damaged0").write_bytes(framed(RECORDS[1:]))
    answer = run(command, *CALLS[command], "--json")
    assert answer.code == (1 if command in ("verify", "salvage", "diff") else 0)
    assert answer.document["command"] == command


def test_text_indexes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed(RECORDS))
    found = run("index", tmp_path / "f", "--idx", "--json").document
    assert found["written"] == [f"{tmp_path}/f.idx"]


def test_the_schema_knows_each_command_and_no_other() -> None:
    kept = json.loads(DOCUMENTS.read_text(encoding="utf-8"))["$defs"]["documents"]
    assert list(kept) == [*(name for name in COMMANDS if name != "completion"), "error", "progress"]
