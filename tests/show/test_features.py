"""The facts of features equal what numpy finds in the same values."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tfio_store as tfs
from tests.support.examples import FLOATS, INT64S
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.show import columns
from tfio_store.show.features import facts_of_feature
from tfio_store.show.gallery import single_values
from tfio_store.show.model import FeatureFacts
from tfio_store.show.tally import Tallies
from tfio_store.tables import held_numbers

QUANTILES = [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1]

NUMBERS = st.one_of(
    st.lists(st.lists(INT64S, max_size=6), max_size=30),
    st.lists(st.lists(st.integers(-3, 12), max_size=6), max_size=60),
    st.lists(st.lists(FLOATS, max_size=6), max_size=30),
)


def told(records: list[bytes], name: str, *, schema: Any = None) -> FeatureFacts:
    tallies = Tallies(schema, 0)
    for start in range(0, len(records), 7):
        batch = RecordBatch.from_records(records[start : start + 7])
        tallies.add(batch, np.arange(len(batch)) + start)
    (tally,) = [each for each in tallies.features.values() if each.name == name]
    return facts_of_feature(tally, tallies.records)


@given(NUMBERS, st.lists(st.booleans(), min_size=60, max_size=60))
def test_numbers_are_what_numpy_finds(rows: list[list[Any]], has: list[bool]) -> None:
    records = [
        tfs.encode_example({"x": row, "one": 1} if h else {"one": 1})
        for row, h in zip(rows, has, strict=False)
    ]
    mine = [row for row, h in zip(rows, has, strict=False) if h]
    if not mine:
        return
    found = told(records, "x")
    flat = [value for row in mine for value in row]
    values = np.array(flat, np.float32 if any(isinstance(v, float) for v in flat) else np.int64)
    wide = values.astype(np.float64)
    finite = values[np.isfinite(wide)]
    assert found.records == len(records)
    assert found.present == len(mine)
    assert found.values == len(values)
    assert found.nans == np.isnan(wide).sum()
    assert found.infinite == np.isinf(wide).sum()
    assert found.zeros == (finite == 0).sum()
    lengths = np.array([len(row) for row in mine])
    assert (found.length_least, found.length_most) == (lengths.min(), lengths.max())
    assert found.length_mean == lengths.mean()
    if found.lengths is not None:
        assert list(found.lengths.counts) == np.histogram(lengths, found.lengths.edges)[0].tolist()
        assert sum(found.lengths.counts) == len(lengths)
    assert found.exact
    if not len(finite):
        assert (found.least, found.most, found.mean, found.histogram) == (None,) * 4
        assert found.quantiles == ()
        return
    _same_numbers(found, finite)


def _same_numbers(found: FeatureFacts, finite: Any) -> None:
    wide = finite.astype(np.float64)
    assert (found.least, found.most) == (finite.min().item(), finite.max().item())
    assert found.mean == pytest.approx(wide.mean(), rel=1e-12, abs=1e-300)
    assert found.std == pytest.approx(wide.std(), rel=1e-9, abs=1e-300)
    ordered = np.sort(finite)
    places = [max(math.ceil(q * len(finite)) - 1, 0) for q in QUANTILES]
    assert list(found.quantiles) == ordered[places].tolist()
    small = np.abs(wide).max() < 2**50
    if small:  # numpy itself goes by floats
        expected = np.quantile(wide, QUANTILES, method="inverted_cdf")
        assert list(found.quantiles) == expected.tolist()
    assert found.distinct == len(np.unique(finite))
    histogram = found.histogram
    assert histogram is not None
    assert list(histogram.counts) == np.histogram(wide, histogram.edges)[0].tolist()
    assert sum(histogram.counts) == len(finite)
    assert len(histogram.edges) == len(histogram.counts) + 1
    assert all(map(math.isfinite, histogram.edges))
    assert (np.diff(histogram.edges) >= 0).all()


@given(st.lists(st.lists(st.sampled_from([b"", b"a", b"bb", b"\xff", b"x" * 100]), max_size=4)))
def test_strings_are_what_python_counts(rows: list[list[bytes]]) -> None:
    rows = [row for row in rows if row]
    if not rows:
        return
    found = told([tfs.encode_example({"s": row}) for row in rows], "s")
    flat = [value for row in rows for value in row]
    assert (found.present, found.values) == (len(rows), len(flat))
    assert (found.length_least, found.length_most) == (min(map(len, flat)), max(map(len, flat)))
    assert found.length_mean == pytest.approx(np.mean([len(value) for value in flat]))
    assert found.distinct == len(set(flat))
    expected = sorted(Counter(flat).values(), reverse=True)
    assert [top.count for top in found.top] == expected[:20]


@pytest.mark.parametrize("codec", ["compiled", "pure"])
def test_both_codecs_say_the_same(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part = "_example" if codec == "compiled" else "pure"
    monkeypatch.setattr(columns, "_example", importlib.import_module(f"tfio_store.example.{part}"))
    records = [
        tfs.encode_example({"x": i, "y": [0.5] * i, "s": b"a" * i, "none": []}) for i in range(9)
    ]
    records += [tfs.encode_example({"x": 1.5}), b"no Example", b""]
    assert told(records, "x").present == 10
    assert told(records, "x").dtype == "int64, float32"
    assert told(records, "y").values == 36
    assert told(records, "s").distinct == 9
    assert told(records, "none").role == "empty"


def test_more_values_than_are_held_are_a_fair_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_numbers, "_MOST_EACH", 1000)
    monkeypatch.setattr(held_numbers, "_PART", 1000)
    values = np.random.default_rng(0).normal(5, 2, 20_000)
    keeper = held_numbers.Held(held_numbers.Budget(), 0)
    for chunk in np.split(values, 20):
        keeper.add(chunk)
    assert not keeper.exact
    assert len(keeper.values) == 1000
    mean, std = keeper.moments
    assert mean == pytest.approx(values.mean())
    assert std == pytest.approx(values.std())
    assert keeper.least == values.min()
    assert abs(keeper.values.mean() - 5) < 0.3
    assert abs((keeper.values < 5).mean() - 0.5) < 0.06


def test_times_have_a_unit(tmp_path: Path) -> None:
    times = np.array(["2024-01-01T00:00:00", "2024-03-01T00:00:00", "NaT"], "datetime64[s]")
    for raw in (False, True):
        schema = Schema({"t": tfs.Feature("datetime64[s]", raw=raw, nullable=True)})
        records = tfs.encode_examples({"t": times}, schema=schema).tolist()
        found = told(records, "t", schema=schema)
        assert (found.role, found.unit) == ("time", "s")
        assert found.least == times[0].astype(np.int64)
        assert found.most == times[1].astype(np.int64)


def test_raw_numbers_are_numbers() -> None:
    schema = Schema({"x": tfs.Feature("float64", (2,), raw=True)})
    records = tfs.encode_examples({"x": np.array([[0.1, 0.2], [0.3, 1e300]])}, schema=schema)
    found = told(records.tolist(), "x", schema=schema)
    assert (found.role, found.dtype, found.most, found.values) == ("number", "float64", 1e300, 4)


@pytest.mark.parametrize("value", [float("inf"), 1e30, 2**63 - 1, -(2**63)])
def test_numbers_where_the_schema_has_times(value: Any) -> None:
    schema = Schema({"t": tfs.Feature("datetime64[s]", raw=True)})
    batch = RecordBatch.from_records([tfs.encode_example({"t": value})])
    (found,) = single_values(batch, 0, schema, most=1, longest=100)
    assert found.shown()


def test_lists_of_raw_numbers_are_counted_by_their_numbers() -> None:
    from tfio_store.example.schema import Schema

    schema = Schema(
        {"x": tfs.Feature("float64", (4,), raw=True), "small": tfs.Feature("uint8", (6,), raw=True)}
    )
    x = np.where(np.arange(400).reshape(100, 4) % 2, np.nan, 1.5)
    small = np.arange(600, dtype=np.uint8).reshape(100, 6) % 5
    records = tfs.encode_examples({"x": x, "small": small}, schema=schema).tolist()
    found = told(records, "x", schema=schema)
    assert (found.present, found.values, found.nans) == (100, 400, 200)
    found = told(records, "small", schema=schema)
    assert (found.values, found.role) == (600, "number")  # classes are one for each record


def test_durations_are_no_classes() -> None:
    from tfio_store.example.schema import Schema

    schema = Schema({"t": tfs.Feature("timedelta64[s]", raw=True)})
    times = (np.arange(400) % 50).astype("timedelta64[s]")
    records = tfs.encode_examples({"t": times}, schema=schema).tolist()
    assert told(records, "t", schema=schema).role == "number"
