"""Times of Python and pandas are written as NumPy's. Both codecs."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.examples import CODECS, use_codec
from tfio_store import (
    SchemaError,
    ShardedWriter,
    decode_examples,
    encode_example,
    encode_examples,
    read_table,
    write_table,
)

NOON = datetime(2020, 2, 29, 12, 30, 1, 5)
BERLIN = timezone(timedelta(hours=1))
TIMES: list[tuple[Any, Any]] = [
    (NOON, np.datetime64("2020-02-29T12:30:01.000005", "us")),
    (NOON.replace(tzinfo=BERLIN), np.datetime64("2020-02-29T11:30:01.000005", "us")),
    (date(1969, 12, 31), np.datetime64("1969-12-31", "D")),
    (timedelta(days=-1, microseconds=2), np.timedelta64(-86_399_999_998, "us")),
    (pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01", "ns")),
    (pd.Timestamp("2020-01-01T00:00:00.000000007Z"), np.datetime64("2020-01-01", "ns") + 7),
    (pd.Timedelta("3ns"), np.timedelta64(3, "ns")),
]


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_codec(request.param, monkeypatch)


@pytest.mark.parametrize(("given", "wanted"), TIMES, ids=str)
def test_times_are_written_as_numpys(codec: None, tmp_path: Path, given: Any, wanted: Any) -> None:
    write_table({"x": [given, given]}, tmp_path / "table")
    with ShardedWriter(tmp_path / "records") as writer:
        writer.write({"x": given})
        writer.write({"x": given})
    with ShardedWriter(tmp_path / "schema", schema={"x": str(wanted.dtype)}) as writer:
        writer.write({"x": given})
        writer.write({"x": wanted})
    for name in ("table", "records", "schema"):
        found = read_table(tmp_path / name)["x"]
        assert found.dtype == wanted.dtype
        assert found.tolist() == np.array([wanted, wanted]).tolist()
    assert encode_example({"x": given}) == encode_example({"x": wanted})


def test_lists_of_times(codec: None, tmp_path: Path) -> None:
    rows = [[NOON, NOON + timedelta(1)], [NOON]]
    with ShardedWriter(tmp_path / "records") as writer:
        for row in rows:
            writer.write({"x": row})
    write_table({"x": rows}, tmp_path / "table")
    for name in ("records", "table"):
        assert read_table(tmp_path / name)["x"].tolist() == rows
    record = encode_examples({"x": [rows[0]]})
    assert decode_examples(record, {"x": ("datetime64[us]", (2,))})["x"].tolist() == [rows[0]]


def test_missing_times(codec: None, tmp_path: Path) -> None:
    write_table({"x": [NOON, None, pd.NaT]}, tmp_path / "x")
    found = read_table(tmp_path / "x")["x"]
    assert found.mask.tolist() == [False, True, True]
    assert found.dtype == "datetime64[us]"


def test_what_is_no_time(codec: None, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="time can't be encoded"):
        encode_example({"x": time(3)})
    with pytest.raises(TypeError, match="rows of type time can't be encoded"):
        encode_examples({"x": [time(3)]})
    with pytest.raises(TypeError, match="the list mixes times and other values"):
        encode_example({"x": [NOON, 1]})
    with (
        pytest.raises(SchemaError, match=r"holds datetime64.D., and earlier"),
        ShardedWriter(tmp_path / "x") as writer,
    ):
        writer.write({"x": NOON})
        writer.write({"x": NOON.date()})


def test_a_memoryview_is_a_byte_string(codec: None, tmp_path: Path) -> None:
    with ShardedWriter(tmp_path / "x") as writer:
        for value in (memoryview(b"ab"), b"cd", bytearray(b"ef")):
            writer.write({"x": value})
    assert read_table(tmp_path / "x")["x"].tolist() == [b"ab", b"cd", b"ef"]


def test_errors_say_what_to_do(codec: None) -> None:
    with pytest.raises(ValueError, match=f"row 1 holds {2**70}, which does not fit int64"):
        encode_examples({"x": [1, 2**70]})
    with pytest.raises(TypeError, match="give None where text is missing"):
        encode_examples({"x": np.array(["a", np.nan], object)})
    with pytest.raises(TypeError, match=r"the column mixes text and numbers$"):
        encode_examples({"x": ["a", 1.5]})
