"""Filters on a sample, compared with plain Python; what a record is shown to hold."""

from __future__ import annotations

import math
import operator
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tfio_store as tfs

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.show import datasets
from tests.show.served import viewed
from tfio_store.show.server.content import Content
from tfio_store.show.server.details import FEATURES_AT_ONCE, detail, line
from tfio_store.show.server.filters import Wanted, matches

COMPARE = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
FLOATS = st.floats(width=32) | st.sampled_from([0.0, 0.1, -1.5, math.nan, math.inf])
STRINGS = st.binary(max_size=3) | st.sampled_from([b"a", b"ab", b""])


def found(records: list[bytes], op: str, value: str, feature: Any = None) -> list[int]:
    batch = tfs.RecordBatch.from_records(records)
    rows, looked = matches([(np.arange(len(batch)), batch)], "x", Wanted(op, value, feature))
    assert looked == len(records)
    return rows


def expected(rows: list[Any], op: str, fits: Any) -> list[int]:
    if op == "missing":
        return [i for i, row in enumerate(rows) if not row]
    if op == "!=":
        return [i for i, row in enumerate(rows) if row and not any(map(fits, row))]
    return [i for i, row in enumerate(rows) if any(map(fits, row or []))]


def encoded(rows: list[Any]) -> list[bytes]:
    return [tfs.encode_example({} if row is None else {"x": row}) for row in rows]


@given(st.lists(st.none() | st.lists(INTS, max_size=3), max_size=8), INTS, st.data())
def test_integers(rows: list[Any], value: int, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from([*COMPARE, "!=", "missing"]))
    fits = COMPARE.get(op, operator.eq)
    assert found(encoded(rows), op, str(value)) == expected(rows, op, lambda x: fits(x, value))


@given(st.lists(st.none() | st.lists(FLOATS, max_size=3), max_size=8), FLOATS, st.data())
def test_floats(rows: list[Any], value: float, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from([*COMPARE, "!=", "missing"]))
    told = np.float32(value)

    def fits(x: float) -> bool:
        if math.isnan(value) and op in ("=", "!="):
            return math.isnan(x)
        return bool(COMPARE.get(op, operator.eq)(np.float32(x), told))

    assert found(encoded(rows), op, str(value)) == expected(rows, op, fits)


@given(st.lists(st.none() | st.lists(STRINGS, max_size=3), max_size=8), STRINGS, st.data())
def test_strings(rows: list[Any], value: bytes, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from([*COMPARE, "!=", "missing", "contains"]))
    fits = COMPARE.get(op, operator.eq)
    check = (lambda x: value in x) if op == "contains" else (lambda x: fits(x, value))
    assert found(encoded(rows), op, f"0x{value.hex()}") == expected(rows, op, check)


def test_kinds_that_differ_and_records_that_are_no_examples() -> None:
    records = [*encoded([[1], [b"1"], [1.0], None]), b"no example at all", b""]
    assert found(records, "=", "1") == [0, 1, 2]
    assert found(records, "missing", "") == [3, 4, 5]
    assert found(records, "contains", "1") == [0, 1, 2]


def test_feature_lists_are_found_too() -> None:
    steps = [tfs.encode_sequence_example({}, {"x": [[1], [i]]}) for i in range(4)]
    assert found(steps, ">", "2") == [3]


def test_names_of_classes_and_raw_numbers() -> None:
    records = [tfs.encode_example({"x": i}) for i in (0, 1, 2, 1)]
    assert found(records, "=", "dog", tfs.Feature.class_label(["cat", "dog", "cow"])) == [1, 3]
    raw = tfs.Feature("float64", (2,), raw=True)
    records = [tfs.encode_example({"x": np.array([i, 0.5]).tobytes()}) for i in range(3)]
    assert found(records, ">", "1.5", raw) == [2]
    assert found([tfs.encode_example({"x": b"odd"})], "=", "odd", raw) == [0]


@pytest.mark.parametrize("value", ["words", "", "9" * 400, "1_0", "٣"])
def test_no_numbers(value: str) -> None:
    if value in ("1_0", "٣"):  # Python reads these
        assert found(encoded([[3], [10]]), "=", value) in ([0], [1])
        return
    with pytest.raises(ValueError, match="is no number"):
        found(encoded([[1]]), "=", value)


def test_numbers_beyond_all(tmp_path: Path) -> None:
    assert found(encoded([[1]]), "<", "9" * 90) == [0]
    assert found(encoded([[1.0]]), ">", "-" + "9" * 90) == [0]


def test_an_operator_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="there is no operator"):
        Wanted("like", "x")


def no_url(feature: int, value: int) -> str:
    return ""


class TestContent:
    def told(self, record: bytes, schema: Any = None) -> dict[str, Any]:
        content = Content(record, schema)
        answer = detail(content, 0, lambda feature, value: f"/{feature}/{value}")
        return {each["name"]: each for each in answer["features"]} | {"note": answer["note"]}

    def test_values_are_texts_that_tell_them_whole(self) -> None:
        record = tfs.encode_example({"i": 2**63 - 1, "f": [0.1, math.nan], "s": "hi", "n": []})
        told = self.told(record)
        assert told["i"]["values"] == [str(2**63 - 1)]
        assert told["f"]["values"] == ["0.1", "nan"]
        assert (told["s"]["values"][0]["text"], told["s"]["values"][0]["exact"]) == ("hi", True)
        assert (told["n"]["count"], told["n"]["values"]) == (0, [])

    def test_bytes_are_hexadecimal_and_controls_are_seen(self) -> None:
        record = tfs.encode_example({"b": b"\xff\x00\x01", "c": "a\x1b[2J\u202eb"})
        told = self.told(record)
        assert (told["b"]["values"][0]["text"], told["b"]["values"][0]["hex"]) == ("0xff0001", True)
        assert told["c"]["values"][0]["text"] == "a\\x1b[2J\\u202eb"
        assert not told["c"]["values"][0]["exact"]

    def test_long_lists_are_cut_and_counted(self) -> None:
        record = tfs.encode_example({"i": list(range(100_000)), "s": ["x" * 10_000] * 50})
        told = self.told(record)
        assert told["i"]["count"] == 100_000
        assert len(told["i"]["values"]) == 256
        assert len(told["s"]["values"]) == 16
        assert sum(len(each["text"]) for each in told["s"]["values"]) < 10_000

    def test_images_and_sounds_are_urls(self) -> None:
        record = tfs.encode_example({"p": datasets.png(), "w": datasets.wav(), "svg": "<svg/>"})
        told = self.told(record)
        assert told["p"]["values"][0]["media_type"] == "image/png"
        assert told["w"]["values"][0]["url"] == "/2/0"
        assert told["svg"]["values"][0]["text"] == "<svg/>"

    def test_raw_pixels_are_drawn(self) -> None:
        record = tfs.encode_example({"image": bytes(range(6)), "height": 2, "width": 3})
        content = Content(record)
        (held,) = (each for each in content.features if each.name == "image")
        made = held.media(0, "whole")
        assert made is not None
        assert made[0].startswith(b"\x89PNG")

    def test_a_sequence_example(self) -> None:
        record = tfs.encode_sequence_example({"x": 1}, {"x": [[2], [3, 4]], "w": ["a", "b"]})
        answer = detail(Content(record), 0, no_url)
        names = [(each["name"], each.get("steps"), each["count"]) for each in answer["features"]]
        assert names == [("w", 2, 2), ("x", None, 1), ("x", 2, 3)]

    @given(st.binary(max_size=60))
    def test_any_bytes_are_told(self, record: bytes) -> None:
        content = Content(record)
        assert detail(content, 0, no_url)["nbytes"] == len(record)
        assert line(content, no_url)["nbytes"] == len(record)

    def test_thousands_of_features_come_in_parts(self) -> None:
        record = tfs.encode_example({f"f{i:05}": i for i in range(1000)})
        content, names = Content(record), []
        for first in range(0, 1000, FEATURES_AT_ONCE):
            names += [each["name"] for each in detail(content, first, no_url)["features"]]
        assert names == [f"f{i:05}" for i in range(1000)]
        assert line(content, no_url)["more"] == 992


def test_a_player_asks_for_ranges(tmp_path: Path) -> None:
    with viewed(datasets.audio(tmp_path)) as client:
        client.ready()
        features = client.get("/api/record/0")["features"]
        (url,) = (
            v["url"] for f in features for v in f["values"] if isinstance(v, dict) and "url" in v
        )
        whole = client.ask(url)
        assert (whole.status, whole.headers["content-type"]) == (200, "audio/wav")
        part = client.ask(url, headers={"Range": "bytes=4-11"})
        assert (part.status, part.body) == (206, whole.body[4:12])
        assert part.headers["content-range"] == f"bytes 4-11/{len(whole.body)}"
        rest = client.ask(url, headers={"Range": "bytes=100-"})
        assert rest.body == whole.body[100:]
        assert client.ask(url, headers={"Range": f"bytes={len(whole.body)}-"}).status == 416
        for odd in ("bytes=-5", "bytes=5-4,9-10", "items=1-2", "bytes=x"):
            assert client.ask(url, headers={"Range": odd}).status == 200


def test_small_images_are_thumbnails(tmp_path: Path) -> None:
    url = f"{tmp_path}/train"
    with tfs.ShardedWriter(url, num_shards=1) as writer:
        writer.write({"image": datasets.jpeg(1500, 1500)})
    with viewed(url) as client:
        client.ready()
        ((_, found, small),) = client.get("/api/records")["lines"][0]["cells"]
        assert found == "image/jpeg"
        whole = client.get("/api/record/0")["features"][0]["values"][0]
        assert len(client.ask(small).body) < len(client.ask(whole["url"]).body) / 4


@pytest.mark.parametrize("with_pillow", [True, False])
def test_an_image_that_is_not_decoded_here_is_not_sent_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_pillow: bool
) -> None:
    """Not in a list, not alone, by no address: its size and kind are told, and it is a file to
    download. A browser would take gigabytes to draw it."""
    pytest.importorskip("PIL.Image")
    bomb, scans, sound = datasets.bomb(20_000, 15_000), datasets.scans(100), datasets.jpeg()
    cut = datasets.png(200, 200)[:100]
    url = f"{tmp_path}/train"
    with tfs.ShardedWriter(url, num_shards=1) as writer:
        writer.write({"image": [bomb, scans, cut, sound]})
    if not with_pillow:
        monkeypatch.setitem(sys.modules, "PIL", None)
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with viewed(url) as client:
        client.ready()
        for page in ("/api/records", "/api/rows"):
            ((_, text),) = client.get(page)["lines"][0]["cells"]
            said = "20,000 x 15,000 pixels: it has too many pixels"
            assert text == f"image/png, {len(bomb):,} bytes, {said} and 3 more"
        first, second, third, last = client.get("/api/record/0")["features"][0]["values"]
        assert first["why"] == said
        assert second["why"] == "64 x 48 pixels: it has too many scans"
        assert "url" not in first.keys() | second.keys()
        assert "why" not in last
        for number, data in enumerate([bomb, scans, cut]):
            for row in ("record", "row"):
                for query in ("", "?small=1", "?small=0"):
                    if data is not cut or with_pillow:
                        assert client.ask(f"/media/{row}/0/0/{number}{query}").status == 404
                answer = client.ask(f"/media/{row}/0/0/{number}?file=1")
                assert (answer.status, answer.body) == (200, data)
                assert answer.headers["content-type"] == "application/octet-stream"
                assert answer.headers["content-disposition"].startswith("attachment; filename=")
                assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.ask(third["file"]).body == cut
        assert client.ask(last["url"]).body == client.ask(last["file"]).body == sound
