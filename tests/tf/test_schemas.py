"""What `TFRecordDataset(schema=…)` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402

pytestmark = pytest.mark.tensorflow

SCHEMAS: dict[str, Any] = {
    "a schema": tfs.Schema({"x": tfs.Feature("int64")}),
    "names of dtypes": {"x": "int64"},
    "features": {"x": tfs.Feature("int64")},
    "TensorFlow's features": {"x": tf.io.FixedLenFeature([], tf.int64)},
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"{tmp_path}/train"
    tfs.write_table({"x": list(range(10))}, found)
    return found


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("size", [None, 4])
def test_each_way_to_say_it(url: str, schema: Any, size: int | None) -> None:
    dataset = tfs.TFRecordDataset(url, schema=schema, batch_size=size)
    assert dataset.element_spec["x"].dtype == tf.int64
    found = [x for row in dataset for x in row["x"].numpy().reshape(-1).tolist()]
    assert found == list(range(10))


def test_what_is_no_schema(url: str) -> None:
    with pytest.raises(TypeError, match="schema= takes a Schema"):
        tfs.TFRecordDataset(url, schema=["x"])
    with pytest.raises(ValueError, match="dtype"):
        tfs.TFRecordDataset(url, schema={"x": "number"})
