"""Whatever records and files hold, a report opens, says what it leaves out, and stays small."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.show import datasets
from tests.support.examples import FEATURES, entry, field, int64s, wire_example
from tests.support.started import python
from tfio_store.show.facts import facts_of
from tfio_store.show.model import Facts
from tfio_store.show.sample import open_source, take_sample
from tfio_store.storage import Storage


def facts(source: str) -> Facts:
    sample = take_sample(open_source(source, Storage()))
    found = facts_of(sample)
    assert len(json.dumps(found.to_json(), allow_nan=False)) < 10 << 20
    for each in found.findings:
        assert len(each.rows) <= 100
        assert all(0 <= row < len(sample) for row in each.rows)
    return found


WIRE = st.one_of(
    FEATURES.map(tfs.encode_example),
    st.binary(max_size=60),
    st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=20)), max_size=5).map(
        lambda pairs: wire_example(*[entry(key, value) for key, value in pairs])
    ),
    st.lists(st.binary(max_size=12), max_size=4).map(
        lambda values: field(2, entry(b"list", b"".join(field(1, each) for each in values)))
    ),
)


@settings(max_examples=40)
@given(st.lists(WIRE, max_size=20))
def test_any_records(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]) -> None:
    path = datasets.raw(tmp_path_factory.mktemp("any") / "x.tfrecord", records)
    found = facts(path)
    assert found.scope.records == len(records)


@pytest.mark.parametrize("seed", range(8))
def test_changed_files(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    source = datasets.scalars(tmp_path, count=300)
    for path in tmp_path.glob("scalars-*"):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(30)] = chance.randbytes(chance.randrange(30))
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        path.write_bytes(data)
    found = facts(source)
    lost = 300 - found.scope.records
    assert (lost > 0) <= any(each.level == "error" for each in found.findings)
    facts(str(tmp_path / "scalars-*"))


def test_names_that_are_too_many_or_too_long(tmp_path: Path) -> None:
    records = [
        wire_example(*[entry(b"%d_%d" % (i, k), int64s(1)) for k in range(50)]) for i in range(300)
    ]
    records += [wire_example(entry(b"n" * 1_000_000, int64s(1)))] * 2
    found = facts(datasets.raw(tmp_path / "names.tfrecord", records))
    assert len(found.features) == 1000
    assert max(len(feature.name) for feature in found.features) <= 200
    assert "14,001 features beyond the first 1,000" in found.scope.left_out


def test_names_that_are_no_text(tmp_path: Path) -> None:
    records = [wire_example(entry(b"\xff\xfe", int64s(1)))]
    (feature,) = facts(datasets.raw(tmp_path / "x.tfrecord", records)).features
    assert feature.name == "\\xff\\xfe"


def test_of_long_lists_of_strings_a_part_is_looked_at(tmp_path: Path) -> None:
    words = [b"w%d" % (i % 50) for i in range(20_000)]
    records = [tfs.encode_example({"words": words}) for _ in range(3)]
    (feature,) = facts(datasets.raw(tmp_path / "words.tfrecord", records)).features
    assert feature.values == 60_000
    assert not feature.exact
    assert feature.distinct is None
    assert len(feature.top) == 20


def test_lists_of_millions_of_values_are_counted_only(tmp_path: Path) -> None:
    record = wire_example(entry(b"x", field(3, field(1, bytes(13_000_000)))))
    found = facts(datasets.raw(tmp_path / "long.tfrecord", [record]))
    assert found.features[0].values == 13_000_000
    assert found.features[0].histogram is None
    assert found.scope.left_out == ("the values of 1 list of millions",)


def test_a_jpeg_of_very_many_scans_is_not_decoded(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    path = str(tmp_path / "scans")
    tfs.write_table({"image": [datasets.scans(100)]}, path, num_shards=1)
    found = facts(path)
    assert not found.items
    assert found.scope.left_out == ("1 image: it has too many scans",)


# What getrusage tells, a process inherits from the one that started it.
MEASURE = """
import re, sys
from tfio_store.show.facts import facts_of
from tfio_store.show.sample import open_source, take_sample
from tfio_store.storage import Storage
facts_of(take_sample(open_source(sys.argv[1], Storage())))
with open("/proc/self/status") as status:
    print(re.search(r"VmHWM:\\s*([0-9]+)", status.read())[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it counts memory in KiB")
def test_features_of_ten_megabytes_take_little_memory(tmp_path: Path) -> None:
    chance = random.Random(0)
    path = str(tmp_path / "huge")
    with tfs.ShardedWriter(path, num_shards=2) as writer:
        for i in range(12):
            data = chance.randbytes(10_000_000)
            numbers = field(3, field(1, bytes(8_000_000)))
            features = [entry(b"data", field(1, field(1, data))), entry(b"x", numbers)]
            writer.write(wire_example(*features, entry(b"label", int64s(i % 3))))
    done = python(MEASURE, path, check=True)
    assert int(done.stdout) < 500 << 10
