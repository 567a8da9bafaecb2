"""`info`, `count` and `schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, Kept, Run, keep
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.framed import framed


def test_count(run: Run, kept: Kept) -> None:
    answer = run("count", kept.url, *kept.options)
    assert (answer.code, answer.out, answer.err) == (0, "30\n", "")
    assert run("count", kept.url, *kept.options, "--json").document["records"] == 30


def test_count_of_several_and_of_each(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for n, path in enumerate(paths):
        path.write_bytes(framed(RECORDS[: n + 3]))
    assert run("count", *paths).out == "7\n"
    answer = run("count", "--per-shard", tmp_path / "*")
    assert answer.out == f"3\t{paths[0]}\n4\t{paths[1]}\n"
    found = run("count", "--per-shard", "--json", *paths).document
    assert found["shards"][1] == {"url": str(paths[1]), "records": 4}


def test_counts_are_those_of_the_library(local: Kept) -> None:
    assert tfs.count(local.url) == len(list(tfs.RecordReader(local.url)))


def test_count_of_streams_and_raw_files_at_once(tmp_path: Path, run: Run) -> None:
    with tfs.TFRecordWriter(tmp_path / "z", "ZLIB") as writer:
        writer.write_batch(RECORDS)
    (tmp_path / "r").write_bytes(framed(RECORDS))
    (tmp_path / "e").write_bytes(b"")
    answer = run("count", "--per-shard", tmp_path / "z", tmp_path / "r", tmp_path / "e")
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == ["30", "30", "0"]


@pytest.mark.parametrize("codec", ["raw", "GZIP"])
def test_a_manifest_tells_without_a_look_at_a_file(
    run: Run, place: Place, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(f"manifest {codec}", place)
    asked = Counted(place.open()[0], monkeypatch)
    assert run("count", kept.url, *kept.options).out == "30\n"
    assert run("info", kept.url, *kept.options).code == 0
    assert asked.ranges == []


def test_info(run: Run, kept: Kept) -> None:
    found = run("info", kept.url, *kept.options, "--json", "--shards").document
    assert found["records"] == (30 if kept.has_manifest else None)
    assert found["compression"] == ("GZIP" if "GZIP" in kept.kind else None)
    assert found["indexed"] is kept.has_manifest
    assert (found["generation"] is not None) is kept.has_manifest
    assert found["nbytes"] == sum(shard["nbytes"] for shard in found["shards"])
    text = run("info", kept.url, *kept.options, "--shards").out
    assert f"records      {30 if kept.has_manifest else 'unknown; run tfio-store count'}\n" in text
    assert found["shards"][0]["url"] in text
    assert ("features     id, name, score, ids" in text) is kept.has_manifest


def test_info_says_since_when_features_are_there(run: Run, tmp_path: Path) -> None:
    url, old = str(tmp_path / "train"), str(tmp_path / "old")
    tfs.write_table({"x": [1, 2]}, old)
    tfs.write_table({"x": [1, 2]}, url)
    tfs.write_table({"y": ["a"]}, url, if_exists="append")
    assert "grown        y (new), x (may be missing) since record 2\n" in run("info", url).out
    (growth,) = run("info", url, "--json").document["growth"]
    assert (growth["record"], growth["added"], growth["optional"]) == (2, ["y"], ["x"])
    assert growth["generation"] == tfs.info(url).generation
    told = run("diff", old, url).out
    assert "feature x: int64 () and int64 () nullable, may be missing since record 2\n" in told
    assert "feature y: none and str () nullable, since record 2\n" in told


def test_names_that_are_no_text(run: Run, tmp_path: Path) -> None:
    """JSON can spell half a character."""
    url = str(tmp_path / "train")
    with tfs.ShardedWriter(url, num_shards=1, schema={"x\ud800": "int64"}):
        pass
    assert "features     x\\ud800\n" in run("info", url).out
    assert [*run("info", url, "--json").document["schema"]["features"]] == ["x\ud800"]


def test_info_of_several_files(run: Run, tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"f{n}").write_bytes(framed(RECORDS[: n + 1]))
    assert "file sizes" in run("info", tmp_path / "f*").out
    assert run("info", tmp_path / "f0", tmp_path / "f1", "--json").document["num_shards"] == 2


def test_schema(run: Run, kept: Kept) -> None:
    found = run("schema", kept.url, *kept.options, "--format", "json").document["schema"]
    expected = tfs.infer_schema(kept.url, storage_options=kept.place.storage_options)
    assert tfs.Schema.from_json(found) == expected
    table = run("schema", kept.url, *kept.options).out.splitlines()
    assert table[0].split() == ["feature", "dtype", "shape", "kind", "default", "in"]
    assert sorted(line.split()[0] for line in table[1:]) == ["id", "ids", "name", "score"]


def test_a_schema_tells_how_many_records_have_a_feature(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    rows: list[dict[str, Any]] = [{"x": 1}, {}, {"x": 2, "y": "a"}]
    path.write_bytes(framed([tfs.encode_example(row) for row in rows]))
    found = run("schema", path, "--json").document["seen"]
    assert found == {"records": 3, "features": {"x": 2, "y": 1}}
    assert [line[-6:] for line in run("schema", path).out.splitlines()[1:]] == ["2 of 3", "1 of 3"]
    assert run("schema", path, "--json", "--sample", "1").document["seen"]["records"] == 1


def test_a_damaged_record_does_not_hide_the_schema(run: Run, tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": list(range(100))}, url, num_shards=1)
    (shard,) = tmp_path.glob("train-*")
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    answer = run("schema", url, "--json")
    assert answer.code == 0
    assert answer.document["seen"] == {"records": 99, "features": {"x": 99}}
    assert "tfio-store: warning" in answer.err


FEATURES: dict[str, Any] = {
    "scalar": "int64",
    "vector": ("float32", (3,)),
    "default": tfs.Feature("int64", (2,), default=7),
    "text": tfs.Feature("bytes", default=b"\xff'"),
    "ragged": ("int64", (None,)),
    "pairs": ("float32", (None, 2)),
    "nested": ("int64", (None, None)),
    "raw": tfs.Feature("float64", (2,), raw=True),
    "raw default": tfs.Feature("uint8", (2,), raw=True, default=1),
    "nan": tfs.Feature("float32", default=float("nan")),
    "nullable": tfs.Feature("int64", nullable=True, default=-1),
}


@pytest.mark.tensorflow
def test_a_spec_as_text_makes_the_spec() -> None:
    import tensorflow as tf

    from tfio_store.tables.texts import spec_text

    schema, names = tfs.Schema(FEATURES), {"tf": tf}
    exec(spec_text(schema), names)
    assert repr(names["feature_spec"]) == repr(schema.feature_spec())


@pytest.mark.tensorflow
def test_a_spec_of_feature_lists_and_nulls() -> None:
    import tensorflow as tf

    from tfio_store.tables.texts import spec_text

    steps = tfs.Feature("int64", (None,), sequence=True)
    schema = tfs.Schema({"x": tfs.Feature("int64", nullable=True), "steps": steps})
    names: dict[str, Any] = {"tf": tf}
    exec(spec_text(schema), names)
    assert names["context_features"] == {"x": tf.io.VarLenFeature(tf.int64)}
    assert names["sequence_features"] == {
        "steps": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    }
