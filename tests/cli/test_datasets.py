"""`copy` and `diff`."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, SCHEMA, Kept, Run, keep
from tests.servers.place import Place
from tests.support.framed import framed


def records_of(kept: Kept, url: str) -> list[bytes]:
    return list(tfs.RecordReader(url, storage_options=kept.place.storage_options))


def test_copy(run: Run, kept: Kept) -> None:
    target = kept.place.url("copied")
    answer = run("copy", kept.url, target, *kept.options, "--num-shards", 4, "--json")
    assert answer.code == 0
    found = answer.document
    assert (found["records"], found["num_shards"]) == (30, 4)
    assert found["compression"] == ("GZIP" if "GZIP" in kept.kind else None)
    assert records_of(kept, target) == RECORDS
    if kept.has_manifest:
        schema = tfs.info(target, storage_options=kept.place.storage_options).schema
        assert schema == tfs.Schema(SCHEMA)


@pytest.mark.parametrize("num_shards", [1, 2, 7, 40])
def test_shards_hold_runs_of_nearly_one_length(local: Kept, num_shards: int) -> None:
    target = local.place.url("copied")
    made = tfs.copy(local.url, target, num_shards=num_shards)
    counts = [shard.records for shard in made.shards]
    assert max(counts) - min(counts) <= 1
    assert records_of(local, target) == RECORDS


def test_shards_by_size_and_other_compression(run: Run, local: Kept) -> None:
    target = local.place.url("copied")
    size = ("--max-shard-bytes", "1kB", "--compression", "zlib")
    assert run("copy", local.url, target, *size).code == 0
    found = tfs.info(target)
    assert len(found.shards) > 1
    assert found.compression == "ZLIB"
    assert records_of(local, target) == RECORDS


def test_shuffled(run: Run, local: Kept) -> None:
    target = local.place.url("copied")
    assert run("copy", local.url, target, "--num-shards", 2, "--shuffle-seed", 1).code == 0
    found = records_of(local, target)
    assert found != RECORDS
    assert Counter(found) == Counter(RECORDS)


def test_merged(run: Run, tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"f{n}").write_bytes(framed(RECORDS[n * 10 : n * 10 + 10]))
    answer = run("copy", *(tmp_path / f"f{n}" for n in range(3)), tmp_path / "new" / "train")
    assert answer.out.startswith(f"{tmp_path}/new/train: 30 records in 1 file, ")
    assert list(tfs.RecordReader(str(tmp_path / "new" / "train"))) == RECORDS


def test_what_sources_do_not_share_is_told(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", "1")):
        tfs.write_table({"x": [value]}, str(tmp_path / name))
    sources = [str(tmp_path / name) for name in "ab"]
    with pytest.warns(RuntimeWarning, match="the sources differ in their schema"):
        tfs.copy(sources, str(tmp_path / "c"))
    assert tfs.info(tmp_path / "c").schema is None
    tfs.write_table({"x": [2]}, str(tmp_path / "d"))
    tfs.copy([str(tmp_path / "a"), str(tmp_path / "d")], str(tmp_path / "e"))
    assert tfs.info(tmp_path / "e").schema is not None


def test_damage_leaves_no_target(run: Run, tmp_path: Path) -> None:
    path, data = tmp_path / "f", bytearray(framed(RECORDS))
    data[-30] ^= 1
    path.write_bytes(data)
    answer = run("copy", path, tmp_path / "new" / "train")
    assert answer.code == 1
    assert str(path) in answer.err
    new = tmp_path / "new"
    assert not new.exists() or not list(new.iterdir())


def test_an_existing_target(run: Run, local: Kept) -> None:
    target = local.place.url("copied")
    assert run("copy", local.url, target).code == 0
    assert run("copy", local.url, target).code == 2
    assert run("copy", local.url, target, "--if-exists", "append").code == 0
    assert tfs.count(target) == 60


def test_shuffling_keeps_the_number_of_shards(run: Run, local: Kept) -> None:
    target = local.place.url("copied")
    assert run("copy", local.url, target, "--shuffle-seed", 1).code == 0
    assert len(tfs.open(target).shards) == len(tfs.open(local.url).shards)
    rolling = ("--shuffle-seed", 1, "--max-shard-bytes", 1000)
    assert run("copy", local.url, f"{target}2", *rolling).code == 2


def test_progress(local: Kept) -> None:
    told: list[tfs.results.Progress] = []
    tfs.copy(local.url, local.place.url("copied"), num_shards=2, on_progress=told.append)
    assert (told[-1].records, told[-1].whole, told[-1].shards) == (30, 30, 2)


def test_a_source_does_not_differ_from_itself(run: Run, kept: Kept) -> None:
    answer = run("diff", kept.url, kept.url, *kept.options)
    assert (answer.code, answer.out) == (0, "the same 30 records\n")
    found = run("diff", kept.url, kept.url, *kept.options, "--unordered", "--json").document
    assert found["same"]


def test_against_a_copy(run: Run, tmp_path: Path) -> None:
    kept = keep("manifest GZIP", Place(str(tmp_path)))
    other = str(tmp_path / "other")
    tfs.copy(kept.url, other, num_shards=3, shuffle_seed=1, target_compression=None)
    assert run("diff", kept.url, other).code == 1
    assert run("diff", "--unordered", kept.url, other).code == 0


def test_features_of_the_same_records_are_the_same(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    records = [tfs.encode_example({"x": i, "r": 1}) for i in range(1500)]
    records.append(tfs.encode_example({"x": 1500}))
    one.write_bytes(framed(records))
    two.write_bytes(framed(records[::-1]))
    assert run("diff", "--unordered", one, two).code == 0
    assert run("diff", one, two).code == 1


def test_what_differs(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(framed([tfs.encode_example({"x": i, "same": 1}) for i in range(5)]))
    two.write_bytes(framed([tfs.encode_example({"y": [i, i], "same": 1}) for i in range(4)]))
    answer = run("diff", one, two)
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "feature x: int64 () and none",
        "feature y: none and int64 (2,)",
        "records: 5 and 4",
        "5 records differ, the first is record 0",
    ]


def test_heaps_are_those_of_python(tmp_path: Path) -> None:
    chance = random.Random(3)
    for _ in range(20):
        heaps = [[b"%d" % chance.randrange(4) for _ in range(chance.randrange(6))] for _ in "ab"]
        for name, heap in zip("ab", heaps, strict=True):
            (tmp_path / name).write_bytes(framed(heap))
        found = tfs.diff(str(tmp_path / "a"), str(tmp_path / "b"), ordered=False)
        left, right = map(Counter, heaps)
        assert found.different == sum(((left - right) + (right - left)).values())
        assert found.records == (len(heaps[0]), len(heaps[1]))


def test_two_stores(run: Run, s3: Place, tmp_path: Path) -> None:
    near, far = keep("foreign raw", Place(str(tmp_path))), keep("foreign raw", s3)
    options = json.dumps(s3.storage_options)
    assert run("diff", near.url, far.url, "--other-options", options).code == 0
    target = s3.url("copied")
    assert run("copy", near.url, target, "--target-options", options).code == 0
    assert records_of(far, target) == RECORDS
