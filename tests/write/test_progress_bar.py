"""The bar that `on_progress=` takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tfio_store as tfs

pytest.importorskip("tqdm")


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)


def test_a_read_ends_its_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    url = f"{tmp_path}/train"
    tfs.write_table({"x": range(3000)}, url, num_shards=3)
    bar = tfs.ProgressBar("comparing")
    assert tfs.diff(url, url, on_progress=bar).same
    last = capsys.readouterr().err.rstrip().split("\r")[-1]
    assert last.startswith("comparing: 100%")
    assert "3.00k/3.00k" in last
    bar.close()


def test_shards_are_counted_where_no_more_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    for shard in range(2):
        with tfs.TFRecordWriter(f"{tmp_path}/{shard}.tfrecord") as writer:
            writer.write(b"x")
    assert tfs.count(f"{tmp_path}/*.tfrecord", on_progress=tfs.ProgressBar()) == 2
    assert "2.00/2.00" in capsys.readouterr().err.rstrip().split("\r")[-1]


def test_a_writer_has_no_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    with tfs.ProgressBar("writing") as bar:
        tfs.write_table({"x": range(3000)}, f"{tmp_path}/train", on_progress=bar)
    last = capsys.readouterr().err.rstrip().split("\r")[-1]
    assert last.startswith("writing: 3.00k records")


def test_a_bar_that_was_never_called_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with tfs.ProgressBar():
        pass
    assert capsys.readouterr().err == ""


def test_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"tfio_store\[progress\]"):
        tfs.ProgressBar()


def test_silent_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tfs.ProgressBar("writing") as bar:
        tfs.write_table({"x": range(3000)}, f"{tmp_path}/train", on_progress=bar)
    assert tfs.count(f"{tmp_path}/train", on_progress=tfs.ProgressBar()) == 3000
    assert capsys.readouterr() == ("", "")


def test_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class that tqdm has for notebooks draws by IPython, and there stderr is no terminal."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)

    class tqdm_notebook:  # noqa: N801 - tqdm's name
        total = n = 0

        def __init__(self, *, disable: bool, **_: object) -> None:
            assert not disable

        def update(self, n: int) -> None: ...
        def refresh(self) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr("tqdm.auto.tqdm", tqdm_notebook)
    tfs.ProgressBar()(tfs.results.Progress(records=1, nbytes=1, whole=2, shards=1, whole_shards=1))
