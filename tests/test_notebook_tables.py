"""What a notebook shows of a dataset, a schema, a source and a storage: short, escaped, and
without credentials."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place

HOSTILE = "<script>alert('x')</script>&"


def cells(shown: Any) -> list[list[str]]:
    """The table's rows, as an XML parser finds them: text that was not escaped breaks it."""
    page = ET.fromstring(shown._repr_html_())
    assert {element.tag for element in page.iter()} <= {
        "div", "b", "table", "thead", "tbody", "tr", "th", "td"
    }  # fmt: skip
    return [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]


@pytest.fixture
def written(place: Place) -> Place:
    with tfs.ShardedWriter(
        place.url("train"),
        num_shards=2,
        schema=tfs.Schema({"x": "int64", HOSTILE: "int64"}),
        storage_options=place.storage_options,
    ) as writer:
        writer.write_batch({"x": i, HOSTILE: i} for i in range(1234))
    return place


def test_a_dataset_shows_what_it_holds(written: Place) -> None:
    dataset = tfs.open(written.url("train"), storage_options=written.storage_options)
    rows = dict(cells(dataset))
    assert rows["records"] == "1,234"
    assert rows["shards"] == "2"
    assert rows["source"] == written.url("train")
    assert rows["features"] == f"x, {HOSTILE}"
    assert rows["bytes"] == f"{dataset.nbytes:,}"


def test_a_record_source_shows_the_same(written: Place) -> None:
    source = tfs.RecordSource(written.url("train"), storage_options=written.storage_options)
    assert dict(cells(source)) == dict(cells(source.dataset))


def test_the_shards_of_other_programs_show_that_nobody_counted(tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "a.tfrecord.gz", "GZIP") as writer:
        writer.write(b"x")
    (tmp_path / "a.tfrecord.gz").rename(tmp_path / "a")
    rows = dict(cells(tfs.open(tmp_path / "a")))
    assert rows["records"] in ("1", "not known without reading")
    assert "generation" not in rows


def test_a_schema_is_a_table_of_features() -> None:
    schema = tfs.Schema({HOSTILE: ("float32", (2, 3)), "y": tfs.Feature("int64", default=7)})
    assert cells(schema) == [
        ["feature", "dtype", "shape", "default"],
        [HOSTILE, "float32", "(2, 3)", ""],
        ["y", "int64", "()", "7"],
    ]


def test_a_long_schema_is_cut_and_says_so() -> None:
    schema = tfs.Schema({f"f{i}": "int64" for i in range(1020)})
    assert len(cells(schema)) == 21
    assert "and 1,000 more" in schema._repr_html_()


@pytest.mark.parametrize("options", [None, {"key": "AKIAIOSFODNN7", "secret": "hunter22"}])
def test_a_storage_shows_names_of_options_and_no_values(options: dict[str, Any] | None) -> None:
    storage = tfs.Storage(options, retry=tfs.Retry(attempts=9))
    rows = dict(cells(storage))
    assert rows["options"] == ("none: the client finds them" if options is None else "key, secret")
    assert "attempts=9" in rows["retry"]
    text = storage._repr_html_()
    assert "AKIAIOSFODNN7" not in text
    assert "hunter22" not in text


def test_a_password_in_a_url_is_not_shown(tmp_path: Path) -> None:
    from tfio_store.dataset.model import Dataset, Shard, Shards

    url = "https://user:hunter22@host/train-00000.tfrecord?sig=c2VjcmV0c2VjcmV0"
    shard = Shard("https://host/train-00000.tfrecord", 10, secret_url=url)
    text = Dataset(Shards([shard]), named=url)._repr_html_()
    assert "hunter22" not in text
    assert "c2VjcmV0" not in text
