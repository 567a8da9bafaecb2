"""What docs/engines.md shows of each engine runs as it stands, and so do the examples."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.pages import ROOT, blocks_of


def run(title: str, root: Path) -> None:
    """The code under a heading, with folders for buckets."""
    code = "\n".join(blocks_of("docs/engines.md", "python", title))
    code = code.replace("s3://bucket", str(root))
    exec(compile(code, "docs/engines.md", "exec"), {})


def test_ray(ray_cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("Ray", tmp_path)
    count, *sums = map(int, capsys.readouterr().out.split())
    assert (count, sum(sums)) == (1000, sum(range(1000)))


def test_dask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dask = pytest.importorskip("dask", reason="Dask is not installed")
    with dask.config.set(scheduler="synchronous"):
        run("Dask", tmp_path)
    assert capsys.readouterr().out.startswith("10\n")


def test_beam(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("apache_beam", reason="Beam is not installed")
    run("Beam", tmp_path)
    assert capsys.readouterr().out == "1000\n"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_spark(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("Spark", tmp_path)
    assert capsys.readouterr().out.split() == ["1000", str(sum(i * i for i in range(1000)))]


@pytest.mark.long
def test_the_example_of_ray(
    ray_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.delitem(sys.modules, "ray_to_tfrecord", raising=False)
    example = importlib.import_module("ray_to_tfrecord")
    ray.cloudpickle.register_pickle_by_value(example)  # as Ray does with a script's own functions
    example.main(str(tmp_path / "squares"), rows=100)
    table: Any = tfs.read_table(str(tmp_path / "squares"))
    assert sorted(table["square"]) == [i * i for i in range(100)]


def test_the_example_of_beam(
    s3: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("apache_beam", reason="Beam is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    example = importlib.import_module("beam_on_s3")
    example.main(s3.url("words"), count=300, storage_options=s3.storage_options)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "300 records"
    assert shown[1].startswith("[('a', 600), ")
    assert tfs.count(s3.url("words"), storage_options=s3.storage_options) == 300
