"""The blocks of docs/torch.md run as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.test_documents import blocks

pytest.importorskip("torchdata", reason="torchdata is not installed")


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.arange(1000)
    tokens = np.add.outer(labels, np.arange(16))
    tfs.write_table({"tokens": tokens, "label": labels}, f"{tmp_path}/train", num_shards=4)
    names: dict[str, Any] = {"tfs": tfs}
    for number, block in enumerate(blocks("docs/torch.md")):
        code = block.replace("s3://bucket", str(tmp_path))
        exec(compile(code, f"docs/torch.md, block {number}", "exec"), names)
    assert capsys.readouterr().out.split() == ["8"] * 4
