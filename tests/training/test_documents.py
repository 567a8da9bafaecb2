"""The parts of docs/how_to about PyTorch and JAX run as they stand, on an S3 server; so does
docs/torch.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.pages import blocks_of

NEEDED = {"PyTorch": ("torchdata",), "JAX": ("jax", "grain")}


def execute(page: str, under: str, names: dict[str, Any], bucket: str = "bucket") -> None:
    for number, block in enumerate(blocks_of(f"docs/how_to/{page}", "python", under)):
        code = re.sub(r"\bbucket(?=/)", bucket, block)
        exec(compile(code, f"{page}, {under}, block {number}", "exec"), names)


@pytest.mark.parametrize("framework", NEEDED)
def test_training_from_s3(bucket: Place, framework: str) -> None:
    for package in NEEDED[framework]:
        pytest.importorskip(package)
    names: dict[str, Any] = {}
    name = bucket.root.removeprefix("s3://")
    for under in ("Credentials", "Write a dataset to try", framework):
        execute("train_from_s3.md", under, names, name)
    if framework == "PyTorch":
        assert names["rows"] == 1000
    else:
        assert names["points"].shape == (100, 8)
        assert len(names["rows"]) == 1000


@pytest.mark.parametrize("framework", NEEDED)
def test_training_is_resumed(tmp_path: Path, framework: str) -> None:
    for package in NEEDED[framework]:
        pytest.importorskip(package)
    url = f"{tmp_path}/train"
    tfs.write_table({"label": np.arange(1000)}, url, num_shards=4)
    execute("resume_training.md", framework, {"URL": url, "tfs": tfs})


def test_the_page_of_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchdata", reason="torchdata is not installed")
    labels = np.arange(1000)
    tokens = np.add.outer(labels, np.arange(16))
    tfs.write_table({"tokens": tokens, "label": labels}, f"{tmp_path}/train", num_shards=4)
    names: dict[str, Any] = {"tfs": tfs}
    for number, block in enumerate(blocks_of("docs/torch.md", "python")):
        code = block.replace("s3://bucket", str(tmp_path))
        exec(compile(code, f"docs/torch.md, block {number}", "exec"), names)
    assert capsys.readouterr().out.split() == ["8"] * 4
