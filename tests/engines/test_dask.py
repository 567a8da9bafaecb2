"""Dask reads and writes datasets by processes on this machine, and loses a worker."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.engines.deaths import die, kill_when_it_waits, once, only_clean_sees_it
from tests.servers.place import Place
from tests.support.framed import flipped, framed

dask = pytest.importorskip("dask", reason="Dask is not installed")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed")

from tfio_store.dask import _read, read_tfrecords, to_tfrecords  # noqa: E402

ROOT = Path(__file__).parent.parent.parent
FRAME = pd.DataFrame(
    {
        "number": np.arange(300),
        "half": np.arange(300) / 2,
        "text": [f"é{i}" for i in range(300)],
        "data": [bytes([i % 256]) for i in range(300)],
        "maybe": pd.array([None if i % 3 else i for i in range(300)], "Int64"),
        "flag": pd.array([None if i % 7 == 0 else i % 2 == 0 for i in range(300)], "boolean"),
        "day": pd.date_range("2020-01-01", periods=300),
        "kind": pd.Categorical([["a", "b", "c"][i % 3] for i in range(300)]),
    }
)


@pytest.fixture(autouse=True)
def here() -> Iterator[None]:
    """Without a cluster, tasks run in this process. Dask leaves bytes alone."""
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        yield


@pytest.fixture(scope="module")
def workers(outside: object) -> Iterator[Any]:
    """Two processes."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def frame(partitions: int = 3) -> Any:
    return dd.from_pandas(FRAME, npartitions=partitions)


def named(manifest: tfs.DatasetManifest) -> set[str]:
    return {*manifest.names(), "_train.manifest.json"}


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_frame_comes_back_as_it_was(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    manifest = to_tfrecords(frame(), url, compression="GZIP", schema={"half": "float64"})
    assert (manifest.records, len(manifest.shards), manifest.compression) == (300, 3, "GZIP")
    found = read_tfrecords(url, npartitions=2)
    assert found.npartitions == 2
    made = found.compute()
    assert made.dtypes.drop("kind").equals(found.dtypes.drop("kind"))
    pd.testing.assert_frame_equal(
        made.astype({"kind": object, "day": "datetime64[s]"}),
        FRAME.astype({"kind": object, "day": "datetime64[s]"}),
        check_column_type=False,
    )
    assert left_in(tmp_path) == named(manifest)


def test_partitions_have_the_dtypes_that_were_announced(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1, None, 3, 4]}, url, num_shards=2)
    found = read_tfrecords(url, npartitions=2)
    assert str(found.dtypes["x"]) == "Int64"
    assert [str(part.compute().dtypes["x"]) for part in found.partitions] == ["Int64"] * 2


def test_rows_are_numbered_and_found_by_their_numbers(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    to_tfrecords(frame(6), url)
    found = read_tfrecords(url, npartitions=6)
    assert found.divisions == (0, 50, 100, 150, 200, 250, 299)
    assert found.loc[99:101]["number"].compute().tolist() == [99, 100, 101]
    assert len(found) == 300
    assert found.get_partition(1).compute().index.tolist() == list(range(50, 100))


def test_only_the_columns_that_are_needed_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(framed([tfs.encode_example({"x": 1, "name": 7})]))
    found = read_tfrecords(tmp_path / "damaged", schema={"x": "int64", "name": "str"})
    assert int(found["x"].sum().compute()) == 1
    assert int((found["x"] + 1).sum().compute()) == 2
    with pytest.raises(tfs.SchemaError, match="name"):
        found.compute()


def test_bytes_stay_bytes_whatever_dask_makes_of_objects(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"data": [b"\xff", b"a"], "list": tfs.Ragged.from_rows([[1], []])}, url)
    with dask.config.set({"dataframe.convert-string": True}):
        found = read_tfrecords(url).compute()
    assert found["data"].tolist() == [b"\xff", b"a"]
    assert [row.tolist() for row in found["list"]] == [[1], []]


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1], "y": [2], "z": [3]}, url)
    assert list(read_tfrecords(url, columns=["z", "x"]).compute().columns) == ["z", "x"]
    with pytest.raises(KeyError, match="nope"):
        read_tfrecords(url, columns=["nope"])


def test_no_columns_are_rows_alone(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    to_tfrecords(frame(), url)
    for found in (read_tfrecords(url, columns=[]), read_tfrecords(url)[[]]):
        made = found.compute()
        assert (made.shape, made.index.tolist()) == ((300, 0), list(range(300)))
        assert len(found) == 300
    with pytest.raises(ValueError, match="rows and no columns"):
        to_tfrecords(found, str(tmp_path / "none"))
    assert not [name for name in left_in(tmp_path) if "none" in name]


def test_several_datasets_have_the_columns_of_all(tmp_path: Path) -> None:
    urls = [str(tmp_path / name) for name in ("a", "b")]
    for url in urls:
        tfs.write_table({"x": [1, 2]}, url)
    for paths in (urls, iter(urls), [part for url in urls for part in tfs.partitions(url)]):
        found = read_tfrecords(paths)
        assert list(found.columns) == ["x"]
        assert found["x"].compute().tolist() == [1, 2, 1, 2]
    tfs.write_table({"y": [1]}, str(tmp_path / "c"))
    assert list(read_tfrecords([*urls, str(tmp_path / "c")]).compute().columns) == ["record"]


def test_arguments_of_other_types_are_named(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1]}, url)
    with pytest.raises(TypeError, match="columns= takes a list of names"):
        read_tfrecords(url, columns="x")
    with pytest.raises(TypeError, match="blocksize="):
        read_tfrecords(url, blocksize=None)  # type: ignore[arg-type]


def test_records_without_a_schema_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(framed([b"one", b"two"]))
    assert read_tfrecords(tmp_path / "plain").compute()["record"].tolist() == [b"one", b"two"]
    with pytest.raises(KeyError, match="infer_schema"):
        read_tfrecords(tmp_path / "plain", columns=["x"])


def test_files_without_an_index_have_no_numbers(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"x{i}").write_bytes(framed([b"%d" % i] * (i + 1)))
    found = read_tfrecords(tmp_path / "x*")
    assert (found.npartitions, found.known_divisions) == (3, False)
    assert len(found) == 6


def test_damaged_records_are_errors_or_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(flipped(framed([b"one", b"two", b"six"]), 16 + 3 + 12))
    with pytest.raises(tfs.CorruptRecordError):
        read_tfrecords(tmp_path / "x").compute()
    found = read_tfrecords(tmp_path / "x", on_corrupt="skip")
    with pytest.warns(tfs.errors.DataLossWarning):
        assert found.compute()["record"].tolist() == [b"one", b"six"]
    assert not found.known_divisions


def test_empty_datasets(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    manifest = to_tfrecords(frame()[["number", "half"]].query("number < 0"), url)
    assert manifest.records == 0
    found = read_tfrecords(url).compute()
    assert (len(found), found.dtypes.astype(str).tolist()) == (0, ["int64", "float32"])


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(part: Any) -> Any:
        if part["number"].max() > 200:
            raise RuntimeError("the task's own")
        return part

    broken = frame().map_partitions(fail, meta=FRAME.head(0))
    with pytest.raises(RuntimeError, match="own"):
        to_tfrecords(broken, str(tmp_path / "train"))
    assert left_in(tmp_path) == set()


def test_partitions_of_other_types_are_no_dataset(tmp_path: Path) -> None:
    def widen(part: Any) -> Any:
        return part.astype(float) if part["number"].max() > 200 else part

    mixed = frame()[["number"]].map_partitions(widen, meta=FRAME[["number"]].head(0))
    words = "'number' is int64 in what task 0 wrote, and float32 in what task 2 wrote; schema="
    with pytest.raises(ValueError, match=words):
        to_tfrecords(mixed, str(tmp_path / "train"))
    assert left_in(tmp_path) == set()
    manifest = to_tfrecords(mixed, str(tmp_path / "train"), schema={"number": "float64"})
    assert manifest.records == 300


def test_lists_without_values_and_nulls_are_of_any_type(tmp_path: Path) -> None:
    rows: list[Any] = [[], [], None, None, [1.5], []]
    given = dd.from_pandas(pd.DataFrame({"x": pd.Series(rows, dtype=object)}), npartitions=3)
    to_tfrecords(given, str(tmp_path / "train"))
    found = read_tfrecords(str(tmp_path / "train"))["x"].compute()
    assert [row if row is None else row.tolist() for row in found] == rows


def test_what_is_computed_later_is_claimed_now(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    lazy: Any = to_tfrecords(frame(), url, compute=False)
    assert not (tmp_path / "_train.manifest.json").exists()
    assert lazy.compute().records == 300
    with pytest.raises(FileExistsError):
        to_tfrecords(frame(), url)
    more = to_tfrecords(frame(), url, if_exists="append")
    assert more.records == 600


def test_what_is_computed_twice_is_there_once(tmp_path: Path) -> None:
    lazy: Any = to_tfrecords(frame(), str(tmp_path / "train"), compute=False)
    first, again = lazy.compute(), lazy.compute()
    assert again == first
    assert left_in(tmp_path) == named(first)


def test_plain_names_are_found_by_a_glob(tmp_path: Path) -> None:
    to_tfrecords(frame(2), str(tmp_path / "train"), names="plain")
    assert [path.name for path in sorted(tmp_path.glob("train-*"))] == [
        "train-00000-of-00002.tfrecord",
        "train-00001-of-00002.tfrecord",
    ]


def test_other_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"dask\.dataframe\.DataFrame"):
        to_tfrecords(FRAME, str(tmp_path / "train"))
    assert left_in(tmp_path) == set()


def test_a_worker_that_dies_is_replaced_and_counts_once(workers: Any, tmp_path: Path) -> None:
    url, flag = str(tmp_path / "train"), tmp_path / "died"
    flaky = frame(6).map_partitions(once(flag, die), meta=FRAME.head(0))
    with dask.config.set(scheduler=workers):
        manifest = to_tfrecords(flaky, url)
    assert flag.exists()
    flag.unlink()
    assert left_in(tmp_path) == named(manifest)
    table: Any = tfs.read_table(url, columns=["number"])
    assert table["number"].tolist() == list(range(300))


@pytest.mark.long
def test_what_a_dead_driver_left_is_cleaned(outside: object, tmp_path: Path) -> None:
    url = str(tmp_path / "out" / "t")
    program = [sys.executable, "-m", "tests.engines.dask_driver", url, str(tmp_path)]
    driver = subprocess.Popen(program, cwd=ROOT, start_new_session=True)
    kill_when_it_waits(driver, tmp_path / "waits")
    only_clean_sees_it(tmp_path, url)


def test_processes_read_and_write_a_bucket(workers: Any, s3: Place) -> None:
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    with dask.config.set(scheduler=workers):
        manifest = to_tfrecords(frame(), s3.url("ds/train"), **options)
        found = read_tfrecords(s3.url("ds/train"), npartitions=2, **options)
        assert int(found["number"].sum().compute()) == sum(range(300))
    assert manifest.records == 300
    assert "testsecret" not in repr(found) + str(found.expr)


def test_a_task_is_sent_little(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    to_tfrecords(frame(), url)
    (part,) = tfs.partitions(url)
    sent = partial(_read, part, ["number"], schema=None, on_corrupt="raise")
    assert len(pickle.dumps(sent)) < 8 << 10
