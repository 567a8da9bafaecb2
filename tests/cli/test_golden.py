"""What each command shows on terminals of 80 and of 120 columns: the texts in ``golden/``.

``TFIO_STORE_WRITE_GOLDEN=1 python -m pytest tests/cli/test_golden.py`` writes them anew.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.long import first
from tests.support.terminal import on_terminal

GOLDEN = Path(__file__).parent / "golden"
WRITES = "TFIO_STORE_WRITE_GOLDEN" in os.environ

CALLS: dict[str, tuple[str, int]] = {
    "info": ("info train", 0),
    "info-shards": ("info --shards train", 0),
    "count": ("count train", 0),
    "count-per-shard": ("count --per-shard train", 0),
    "schema": ("schema train", 0),
    "head": ("head -n 3 train", 0),
    "get": ("get train 0,2:4,-1", 0),
    "stats": ("stats train", 0),
    "verify": ("verify damaged.tfrecord", 1),
    "copy": ("copy train copied --num-shards 3", 0),
    "diff": ("diff train other", 1),
    "clean": ("clean --older-than 0 left", 0),
}
"""The command lines, and the codes with which they end."""

WIDE = ("verify", "copy", "diff", "clean", "count-per-shard")
"""What these say is lines, which a terminal wraps."""


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """A folder of sources, the same on every machine: its path is as long too, because tables are
    cut by it."""
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/tmp") as folder:
        make_sources(Path(folder))
        yield Path(folder)


def make_sources(made: Path) -> None:
    schema = tfs.Schema({"id": "int64", "text": "str", "scores": ("float32", (2,))})
    for name, last in (("train", "größe"), ("other", "other")):
        with tfs.ShardedWriter(str(made / name), num_shards=2, schema=schema) as writer:
            for i in range(9):
                text = last if i == 8 else " ".join(["word"] * (i * 4))
                writer.write({"id": 10**i, "text": text, "scores": [i / 2, -i / 4]})
    flat = framed([tfs.encode_example({"x": np.arange(8)})] * 4)
    half = len(flat) // 2
    (made / "damaged.tfrecord").write_bytes(flat[: half - 9] + b"?" + flat[half - 8 : -5])
    tfs.write_table({"x": [1]}, str(made / "left"), num_shards=1)
    (made / "_left-00000-of-00001.tfrecord.0123456789ab").write_bytes(b"left")


@pytest.mark.parametrize("columns", first(1, [80, 120]))
@pytest.mark.parametrize("name", CALLS)
def test_golden(data: Path, name: str, columns: int) -> None:
    line, code = CALLS[name]
    # a bar appears where a call takes a second
    arguments = [*line.replace("copied", f"copied-{columns}").split(), "--progress", "none"]
    shown = on_terminal(columns, arguments, code, folder=data)
    shown = re.sub(
        r"\b[0-9a-f]{12}\b", "3f9a1c8e0b52", shown.replace(f"copied-{columns}", "copied")
    )
    shown = shown.replace(str(data), "/data/golden-sources")
    kept = GOLDEN / f"{name}-{columns}.txt"
    if WRITES:
        kept.write_text(shown, encoding="utf-8")
    assert shown == kept.read_text(encoding="utf-8")
    assert max(map(len, shown.splitlines())) <= columns or name in WIDE
