"""Sources are named as people name files, and contradictions are said."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("prefix", ["~", "file://~"])
def test_the_tilde_is_the_home_directory(home: Path, prefix: str) -> None:
    with tfs.ShardedWriter(f"{prefix}/a/train", num_shards=2) as writer:
        writer.write(b"one")
    with tfs.TFRecordWriter(f"{prefix}/a/single") as single:
        single.write(b"two")
    assert (home / "a" / "_train.manifest.json").exists()
    assert list(tfs.RecordReader([f"{prefix}/a/train", f"{prefix}/a/sing*"])) == [b"one", b"two"]
    assert tfs.verify(f"{prefix}/a/train").ok


@pytest.mark.parametrize(("written", "asked"), [(None, "GZIP"), ("GZIP", None), ("GZIP", "ZLIB")])
@pytest.mark.parametrize("by", ["train", ""])
def test_another_compression_than_the_manifests_is_an_error(
    tmp_path: Path, written: str | None, asked: str | None, by: str
) -> None:
    with tfs.ShardedWriter(str(tmp_path / "train"), num_shards=1, compression=written) as writer:
        writer.write(b"one")
    with pytest.raises(ValueError, match=r"compression=.* the manifest of"):
        tfs.RecordReader(tmp_path / by, compression=asked)
    assert list(tfs.RecordReader(tmp_path / by, compression=written)) == [b"one"]
