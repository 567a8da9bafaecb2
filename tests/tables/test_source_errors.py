"""Errors of whole datasets name the source, and the record by its number in it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tfio_store import Feature, Schema, SchemaError

SCHEMA = Schema({"x": Feature("int64")})


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Its record 7 lacks what the others have; its shards hold three records each."""
    with tfs.ShardedWriter(str(tmp_path / "t"), max_shard_records=3) as writer:
        for i in range(9):
            writer.write({"y" if i == 7 else "x": i})
    return str(tmp_path / "t")


def test_reading_a_table(url: str) -> None:
    with pytest.raises(SchemaError) as caught:
        tfs.read_table(url, schema=SCHEMA)
    assert caught.value.record == 7
    assert caught.value.path == url
    assert str(caught.value).startswith(f"{url}: record 7: feature 'x' ")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.path) == (str(caught.value), url)


def test_a_stream_of_tables(url: str) -> None:
    pytest.importorskip("pyarrow", exc_type=ImportError)
    with pytest.raises(SchemaError, match=rf"^{url}: record 7: feature 'x'"):
        tfs.iter_tables(url, schema=SCHEMA).read_all()


def test_text_in_a_stream_of_tables(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", exc_type=ImportError)
    url = str(tmp_path / "records")
    records = [tfs.encode_example({"x": x}) for x in (b"a", b"\xff")]
    Path(url).write_bytes(framed(records))
    with pytest.raises(SchemaError, match=rf"^{url}: record 1: feature 'x' is not UTF-8"):
        tfs.iter_tables(url, schema={"x": "str"}).read_all()


@pytest.mark.parametrize("read", [tfs.infer_schema, tfs.read_table])
def test_inferring(tmp_path: Path, read: Any) -> None:
    url = tmp_path / "records"
    url.write_bytes(framed([tfs.encode_example({"x": x}) for x in (1, b"a")]))
    with pytest.raises(SchemaError, match=rf"^{url}: record 1: feature 'x' holds bytes"):
        read(url)


def test_secrets_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfio_store.dataset.source import of_source

    with pytest.raises(SchemaError) as caught, of_source("s3://me:secret@host/x?sig=secret", 3):
        raise SchemaError("is odd", feature="x", record=2)
    assert caught.value.record == 5
    assert "secret" not in str(caught.value)


def test_a_list_of_files_has_no_one_name(url: str) -> None:
    with pytest.raises(SchemaError, match=r"^record 7: feature 'x'"):
        tfs.read_table([url], schema=SCHEMA)
