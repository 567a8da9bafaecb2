"""A dataset whose months have other columns, as loaders, Hugging Face and Polars give it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.growing import Grown, Row, grown, number, plain

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("grain", reason="Grain is not installed")

from tfio_store.grain import source, stream  # noqa: E402
from tfio_store.torch import (  # noqa: E402
    NullableTensor,
    RaggedTensor,
    TFRecordIterable,
    TFRecordMap,
)

SEEDS = range(12)


@pytest.fixture(params=SEEDS)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Grown:
    return grown(tmp_path, request.param)


def numbered(rows: Iterable[Row]) -> list[Row]:
    """The rows, with milliseconds in the place of times."""
    return [{name: number(plain(value)) for name, value in row.items()} for row in rows]


def values_of(column: Any) -> list[Any]:
    """The rows of a batch's column; None for a null."""
    if isinstance(column, NullableTensor):
        flags = column.valid.tolist()
        return [v if ok else None for v, ok in zip(values_of(column.values), flags, strict=True)]
    if isinstance(column, RaggedTensor):
        flat, ends = column.values.tolist(), column.splits.tolist()
        return [flat[start:stop] for start, stop in pairwise(ends)]
    return column if isinstance(column, list) else list(column.tolist())


def rows_of(batches: Iterable[dict[str, Any]]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        columns = {name: values_of(column) for name, column in batch.items()}
        found += [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
    return numbered(found)


def test_torch(data: Grown) -> None:
    batches = TFRecordIterable(data.url, batch_size=3)
    assert rows_of(batches) == numbered(data.rows)
    dataset = TFRecordMap(data.url)
    assert rows_of([dataset[:]]) == numbered(data.rows)
    single = [dataset[i] for i in range(len(dataset))]
    assert numbered({name: _held(row[name]) for name in row} for row in single) == numbered(
        data.rows
    )


def _held(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


def test_torch_by_defaults(data: Grown) -> None:
    """Dense tensors: a schema whose features are not nullable, and have a default."""
    dense = {
        name: tfs.Feature(of.dtype, of.shape, default=default)
        for name, (of, _, default) in data.columns.items()
        if not of.ragged
    }
    wanted = [{name: row[name] for name in dense} for row in data.filled()]
    assert rows_of(TFRecordIterable(data.url, schema=dense, batch_size=3)) == numbered(wanted)


def test_grain(data: Grown) -> None:
    for rows in (source(data.url), stream(data.url)):
        assert numbered(iter(rows)) == numbered(data.rows)


def test_hugging_face(data: Grown) -> None:
    hf = pytest.importorskip("tfio_store.hf", reason="Hugging Face's datasets is not installed")
    assert numbered(hf.iterable_dataset(data.url)) == numbered(data.rows)


def test_polars(data: Grown) -> None:
    pl = pytest.importorskip("polars", reason="Polars is not installed")
    frame = pl.scan_pyarrow_dataset(tfs.arrow_dataset(data.url)).collect()
    assert numbered(frame.to_dicts()) == numbered(data.rows)
