"""What docs/engines.md shows of Ray and Dask runs as it stands, and so does the example."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

ray = pytest.importorskip("ray", reason="Ray is not installed")

ROOT = Path(__file__).parent.parent.parent


def section(title: str, root: Path) -> str:
    """The code under a heading, with folders for buckets."""
    text = (ROOT / "docs/engines.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found
    blocks = re.findall(r"^```python\n(.*?)^```$", found[1], re.MULTILINE | re.DOTALL)
    return "\n".join(blocks).replace("s3://bucket", str(root))


def test_ray(ray_cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(section("Ray", tmp_path), "docs/engines.md", "exec"), {})
    count, *sums = map(int, capsys.readouterr().out.split())
    assert (count, sum(sums)) == (1000, sum(range(1000)))


def test_dask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dask = pytest.importorskip("dask", reason="Dask is not installed")
    with dask.config.set(scheduler="synchronous"):
        exec(compile(section("Dask", tmp_path), "docs/engines.md", "exec"), {})
    assert capsys.readouterr().out.startswith("10\n")


@pytest.mark.long
def test_the_example(ray_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.delitem(sys.modules, "ray_to_tfrecord", raising=False)
    example = importlib.import_module("ray_to_tfrecord")
    ray.cloudpickle.register_pickle_by_value(example)  # as Ray does with a script's own functions
    example.main(str(tmp_path / "squares"), rows=100)
    table: Any = tfs.read_table(str(tmp_path / "squares"))
    assert sorted(table["square"]) == [i * i for i in range(100)]
