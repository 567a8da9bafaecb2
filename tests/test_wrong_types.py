"""What is plainly no argument: the error names the argument, and says what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

WRONG: dict[str, tuple[Callable[[str], Any], str]] = {
    "decode_examples, None": (
        lambda url: tfs.decode_examples(None, {"x": "int64"}),  # type: ignore[arg-type]
        "records must be a RecordBatch or a list of bytes, not NoneType",
    ),
    "Schema, None": (lambda url: tfs.Schema(None), "features must be a mapping"),  # type: ignore[arg-type]
    "Schema, a list": (lambda url: tfs.Schema(["x"]), "features must be a mapping"),  # type: ignore[arg-type]
    "report, a text": (
        lambda url: tfs.report(url, blocks="a"),  # type: ignore[arg-type]
        "blocks= takes a whole number, not 'a'",
    ),
    "save, None": (
        lambda url: tfs.report(url).save(None),  # type: ignore[arg-type]
        "url must be a path or URL, not NoneType",
    ),
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    tfs.write_table({"x": [1, 2, 3]}, f"{tmp_path}/train")
    return f"{tmp_path}/train"


@pytest.mark.parametrize("name", WRONG)
def test_the_error_names_the_argument(url: str, name: str) -> None:
    call, said = WRONG[name]
    with pytest.raises(TypeError, match=f"^{said}"):
        call(url)


@pytest.mark.parametrize(
    "call",
    [tfs.count, tfs.stats, tfs.verify, tfs.report, tfs.ShardedWriter],
    ids=lambda call: call.__name__,
)
def test_progress_is_a_function(url: str, call: Any) -> None:
    """``True`` was taken by some and ignored, and by others called."""
    with pytest.raises(TypeError, match=r"^on_progress= takes a function, .*ProgressBar"):
        call(url, on_progress=True)


def test_progress_is_a_function_of_what_writes(url: str) -> None:
    calls: list[Any] = [tfs.copy, tfs.salvage, tfs.diff, tfs.build_index]
    for call in calls:
        with pytest.raises(TypeError, match=r"^on_progress= takes a function"):
            call(url, url + "2", on_progress=True)


def test_a_file_that_was_opened_as_text(tmp_path: Path) -> None:
    """It gives letters, and the error was about one that is not UTF-8."""
    (tmp_path / "a").write_bytes(b"")
    read: Any = tfs.RecordReader
    with (
        open(tmp_path / "a", encoding="utf-8") as file,
        pytest.raises(TypeError, match=r"^source= is a file that was opened as text; open it as"),
    ):
        read(file)


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    """It may have been meant for a file or a dataset: neither is there."""
    with pytest.raises(FileNotFoundError, match="no dataset of this name") as caught:
        tfs.RecordReader(tmp_path / "trian")
    assert caught.value.filename == f"{tmp_path}/trian"


def test_paths_are_taken_wherever_a_dataset_is_named(tmp_path: Path) -> None:
    made = tmp_path / "train"
    tfs.write_table({"x": [1, 2, 3]}, made)
    assert tfs.copy(made, tmp_path / "copied").records == 3
    assert tfs.salvage(made, tmp_path / "salvaged").records == 3
    assert tfs.convert(made, tmp_path / "rows.jsonl").records == 3
    assert tfs.convert(tmp_path / "rows.jsonl", tmp_path / "again").records == 3
    assert tfs.clean(made).objects == ()
