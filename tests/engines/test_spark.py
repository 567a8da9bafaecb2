"""Spark reads and writes datasets by the format "tfio_store", which it finds by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.engines.spark_session import ROOT
from tests.servers.place import Place
from tests.support.framed import framed

pytest.importorskip("pyspark", reason="Spark is not installed")

pytestmark = pytest.mark.timeout(900)  # on a machine with other work, Spark takes minutes

ROWS = (
    "id as a",
    "concat('ж', id) as text",
    "array(id, id + 1) as list",
    "cast(id as float) as x",
    "if(id % 3 = 0, null, id) as sometimes",
    "cast(id as double) / 3 as exact",
    "cast(null as int) as never",
    "date_add(date'2024-02-28', cast(id as int)) as day",
    "timestamp'2024-02-28 12:00:00' as moment",
    "cast(id as decimal(10, 2)) as price",
    "array(array(id), array()) as nested",
    "cast(cast(id as string) as binary) as bytes",
)


def reader(spark: Any, place: Place | None = None, **options: str) -> Any:
    return configured(spark.read, place, **options)


def configured(either: Any, place: Place | None = None, **options: str) -> Any:
    """A DataFrameReader, or a DataFrameWriter."""
    either = either.format("tfio_store").options(**options)
    if place is None:
        return either
    return either.option("storageOptions", json.dumps(place.storage_options))


def write(frame: Any, place: Place, name: str, mode: str = "append", **options: str) -> str:
    url = place.url(name)
    configured(frame.write, place, **options).mode(mode).save(url)
    return url


def rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def test_a_data_frame_comes_back(spark: Any, s3: Place) -> None:
    frame = spark.range(0, 1000, 1, 3).selectExpr(*ROWS)
    kept = {"schema": json.dumps({"exact": "float64"})}
    url = write(frame, s3, "folder/train ж", compression="gzip", names="plain", **kept)
    back = reader(spark, s3).load(url)
    assert rows(back) == rows(frame)  # in the order of the partitions
    types = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    assert [(field.name, field.dataType.simpleString()) for field in back.schema] == types
    assert all(field.nullable for field in back.schema)
    assert len([name for name in s3.names("folder") if "/train ж-0000" in name]) == 3
    # and nothing is left beside the dataset
    assert tfs.clean(url, older_than=0, storage_options=s3.storage_options).objects == ()


def test_a_task_for_each_run_of_blocks_of_one_gzip_shard(spark: Any, s3: Place) -> None:
    with tfs.ShardedWriter(
        s3.url("one"),
        num_shards=1,
        compression="GZIP",
        block_bytes=4096,
        schema={"a": "int64"},
        storage_options=s3.storage_options,
    ) as writer:
        writer.write_batch(tfs.encode_examples({"a": range(5000)}))
    frame = reader(spark, s3, numPartitions="4").load(s3.url("one"))
    assert frame.rdd.getNumPartitions() == 4
    assert [row.a for row in frame.collect()] == list(range(5000))
    assert reader(spark, s3, maxPartitionBytes="4096").load(s3.url("one")).count() == 5000


@pytest.mark.long
def test_only_the_wanted_columns_are_decoded(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    tfs.write_table({"a": [1, 2], "b": ["x", "y"], "c, d": [0.5, 1.5]}, str(tmp_path / "t"))
    url = str(tmp_path / "t")
    assert rows(reader(spark).schema("a int").load(url)) == [{"a": 1}, {"a": 2}]
    assert reader(spark, columns="b, a").load(url).columns == ["b", "a"]
    assert rows(reader(spark, columns='["c, d"]').load(url)) == [{"c, d": 0.5}, {"c, d": 1.5}]
    assert reader(spark).schema(StructType()).load(url).count() == 2  # rows of no columns
    with pytest.raises(Exception, match="no feature 'z'; there are a, b"):
        reader(spark).schema("z int").load(url).collect()
    with pytest.raises(Exception, match="column 'b' can't become int32"):
        reader(spark).schema("b int").load(url).collect()


@pytest.mark.long
def test_modes(spark: Any, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    one, two = spark.range(2), spark.range(10, 12)
    url = write(one, place, "t", "append", ifExists="error")
    write(two, place, "t", "append")
    assert sorted(row.id for row in reader(spark).load(url).collect()) == [0, 1, 10, 11]
    with pytest.raises(Exception, match="FileExistsError"):
        write(one, place, "t", "append", ifExists="error")
    with pytest.raises(Exception, match=r"feature 'id': row 0 is str.*int64"):
        write(two.selectExpr("'a' as id"), place, "t", "append")
    write(two.selectExpr("id as other"), place, "t", "append")
    found = reader(spark).load(url).collect()
    assert sorted((row.id, row.other) for row in found if row.id is None) == [
        (None, 10),
        (None, 11),
    ]
    write(two, place, "t", "overwrite")
    assert sorted(row.id for row in reader(spark).load(url).collect()) == [10, 11]
    with pytest.raises(Exception, match=r"use either the .Append. or .Overwrite. mode"):
        write(two, place, "t", "errorifexists")


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_an_empty_data_frame(spark: Any, tmp_path: Path, mode: str) -> None:
    if mode == "append":
        frame = spark.range(0, 5, 1, 2).filter("id < 0")
    else:  # not even tasks
        frame = spark.createDataFrame(spark.sparkContext.emptyRDD(), "id bigint")
    url = write(frame, Place(str(tmp_path)), "t", mode)
    assert tfs.count(url) == 0
    assert list(tfs.infer_schema(url)) == ["id"]
    if mode == "append":
        assert reader(spark).load(url).collect() == []


@pytest.mark.long
def test_records_as_bytes(spark: Any, s3: Place) -> None:
    frame = spark.range(0, 100, 1, 2).selectExpr("cast(cast(id as string) as binary) as value")
    url = write(frame, s3, "bytes", recordType="ByteArray")
    records = [str(i).encode() for i in range(100)]
    assert list(tfs.RecordReader(url, storage_options=s3.storage_options)) == records
    assert [row.record for row in reader(spark, s3).load(url).collect()] == [
        *map(bytearray, records)
    ]
    named = reader(spark, s3, recordType="ByteArray").schema("mine binary").load(url)
    assert named.count() == 100
    with pytest.raises(Exception, match="one column of binary"):
        reader(spark, s3, recordType="ByteArray").schema("mine int").load(url).count()
    with pytest.raises(Exception, match="a data frame of one binary column"):
        write(spark.range(3), s3, "no-bytes", recordType="ByteArray")
    with pytest.raises(Exception, match="has nulls, and no record is one"):
        write(frame.selectExpr("cast(null as binary) as b"), s3, "nulls", recordType="ByteArray")
    assert s3.names("n") == []


@pytest.mark.long
def test_files_without_a_manifest(spark: Any, s3: Place) -> None:
    records = [tfs.encode_example({"a": i, "x": [0.5] * (i % 3), "s": b"b"}) for i in range(50)]
    for shard in range(2):
        s3.put(f"f-{shard}.tfrecord", framed(records[shard * 25 : shard * 25 + 25]))
    url = s3.url("f-*.tfrecord")
    assert reader(spark, s3).load(url).columns == ["record"]
    told = reader(spark, s3).schema("a bigint, x array<double>, missing string").load(url)
    assert rows(told)[:2] == [
        {"a": 0, "x": [], "missing": None},
        {"a": 1, "x": [0.5], "missing": None},
    ]
    assert told.rdd.getNumPartitions() == 2
    inferred = reader(spark, s3, inferSchema="true").load([s3.url("f-0.tfrecord")])
    assert dict(inferred.dtypes) == {"a": "bigint", "s": "binary", "x": "array<float>"}
    assert inferred.count() == 25
    with pytest.raises(Exception, match="no manifest says what the records hold"):
        reader(spark, s3, recordType="Example").load(url)
    ours = json.dumps({"a": "int64", "x": ["float32", [None]]})
    assert reader(spark, s3, schema=ours).load(url).columns == ["a", "x"]


@pytest.mark.long
def test_sequence_examples(spark: Any, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    frame = spark.range(3).selectExpr("id", "array(array(cast(id as float)), array()) as steps")
    url = write(frame.coalesce(1), place, "s", recordType="SequenceExample")
    assert tfs.infer_schema(url)["steps"].sequence
    wanted = [{"id": i, "steps": [[float(i)], []]} for i in range(3)]
    assert rows(reader(spark).load(url)) == wanted
    tfs.copy(url, str(tmp_path / "foreign" / "s"))
    files = [str(path) for path in (tmp_path / "foreign").glob("s-*.tfrecord")]
    for path in (tmp_path / "foreign").glob("_s*"):
        path.unlink()
    told = reader(spark, recordType="SequenceExample").schema(
        "steps array<array<float>>, id bigint"
    )
    assert [row.steps for row in told.load(files).collect()] == [row["steps"] for row in wanted]


@pytest.mark.long
def test_what_cannot_be_written_begins_no_job(spark: Any, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    with pytest.raises(Exception, match="column 'm' is map<string,int>, which no feature is"):
        write(spark.range(3).selectExpr("map('a', 1) as m"), place, "t")
    with pytest.raises(Exception, match="no such options of writing: colour; there are"):
        write(spark.range(3), place, "t", colour="red")
    with pytest.raises(Exception, match="option 'maxShardBytes': takes a positive number"):
        write(spark.range(3), place, "t", maxShardBytes="-1")
    assert place.names() == []


@pytest.mark.long
def test_tables_of_the_catalog_are_refused_and_views_are_not(spark: Any, tmp_path: Path) -> None:
    """Spark hands a data source in Python neither the path nor the options of a table."""
    url = str(tmp_path / "train")
    frame = spark.range(3)
    views = "CREATE TEMPORARY VIEW name USING tfio_store OPTIONS"
    refused = partial(pytest.raises, Exception, match=views)
    names = [f"location '{url}'", f"options (path '{url}')", ""]
    try:
        for told in names:
            with refused():
                spark.sql(f"create table other using tfio_store {told} as select 1 as id")
        with refused():
            frame.write.format("tfio_store").saveAsTable("other")
        assert not list(tmp_path.iterdir())  # refused before anything is written
        # this one looks to the source as save() does
        frame.write.format("tfio_store").option("path", url).saveAsTable("saved")
        for told in names:
            with refused():
                spark.sql(f"create table other using tfio_store {told}")
        assert not spark.catalog.tableExists("other")
        spark.sql(f"create table named (id bigint) using tfio_store location '{url}'")
        for name in ("saved", "named"):
            with refused():
                spark.sql(f"select * from {name}").collect()
            with refused():
                spark.sql(f"insert into {name} values (9)")
        view = f"create or replace temporary view seen using tfio_store options (path '{url}')"
        spark.sql(view)
        assert rows(spark.sql("select * from seen")) == rows(frame)
        spark.sql("insert into seen values (3)")
        everything = rows(spark.range(4))
        spark.sql(view)  # Spark asks once what a view that has been read holds
        for shown in ("seen", f"saved with (path '{url}')", f"named with (path '{url}')"):
            assert rows(spark.sql(f"select * from {shown}")) == everything, shown
    finally:
        for name in ("other", "saved", "named"):
            spark.sql(f"drop table if exists {name}")
        spark.sql("drop view if exists seen")
    assert rows(reader(spark).load(url)) == everything  # what is dropped is the name


@pytest.mark.long
def test_secrets_are_not_told(spark: Any, s3: Place, capsys: pytest.CaptureFixture[str]) -> None:
    hushed = json.dumps({**s3.storage_options, "use_listings_cache": False})
    frame = reader(spark, storageOptions=hushed).schema("id bigint").load(s3.url("t"))
    frame.explain("extended")
    assert "tfio_store" in (shown := capsys.readouterr().out)
    assert "use_listings_cache" not in shown
    with pytest.raises(Exception, match="option 'storageOptions': takes a JSON object") as caught:
        reader(spark, storageOptions='{"secret": "hush').load(s3.url("t"))
    assert "hush" not in str(caught.value)


def test_a_task_that_fails_is_retried_and_counts_once(spark: Any, s3: Place) -> None:
    frame = spark.range(0, 300, 1, 3).mapInArrow(fail_at_first, "id bigint")
    url = write(frame, s3, "retried")
    assert [row.id for row in reader(spark, s3).load(url).collect()] == list(range(300))
    assert left_over(s3, url) == []


def fail_at_first(batches: Any) -> Any:
    """The first attempt at the second task gives rows, and then fails."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    yield from batches
    if context.partitionId() == 1 and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt fails")


def left_over(place: Place, url: str) -> list[str]:
    """What is in the place and no part of the dataset."""
    found = tfs.clean(url, older_than=0, storage_options=place.storage_options)
    return [*found.objects, *found.uploads]


def test_the_lookup_of_formats_needs_little() -> None:
    """Spark imports it for every format in Python: were it to fail, none would be found."""
    program = "import sys; sys.modules['pyarrow'] = None; import pyspark_tfio_store as found; "
    program += "print(found.DefaultSource.name(), 'tensorflow' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert told.stdout.split() == ["tfio_store", "False"], told.stderr
