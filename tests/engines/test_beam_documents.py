"""What docs/engines.md shows of Beam runs as it stands, and so does the example."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.engines.test_ray_documents import ROOT, section
from tests.servers.place import Place

pytest.importorskip("apache_beam", reason="Beam is not installed")


def test_beam(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(section("Beam", tmp_path), "docs/engines.md", "exec"), {})
    assert capsys.readouterr().out == "1000\n"


def test_the_example(
    s3: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    example = importlib.import_module("beam_on_s3")
    example.main(s3.url("words"), count=300, storage_options=s3.storage_options)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "300 records"
    assert shown[1].startswith("[('a', 600), ")
    assert tfs.count(s3.url("words"), storage_options=s3.storage_options) == 300
