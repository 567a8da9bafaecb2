"""Shards shuffled by way of a temporary file."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        return open("/dev/full", "r+b", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match=r"shuffle_seed=.*TMPDIR") as caught:  # noqa: SIM117
        with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=2, shuffle_seed=1) as writer:
            writer.write_batch([bytes(1000)] * 10_000)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == tempfile.gettempdir()
    assert list(tmp_path.iterdir()) == []


def test_records_go_round_the_shards(tmp_path: Path) -> None:
    """What the docstring of ``num_shards`` says."""
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=4) as writer:
        writer.write_batch(b"%d" % i for i in range(100))
    assert tfs.RecordSource(tmp_path / "t")[7] == b"28"
