"""Pages of records by their numbers: right ones, in few reads, in little memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.framed import framed
from tests.support.million import BLOCKS, record, write_many

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.show.served import look_at_all, served, served_by, viewed
from tfio_store.show.server.faults import in_words
from tfio_store.show.server.opening import Opening
from tfio_store.show.server.pages import PAGE_BYTES, Pager
from tfio_store.show.server.samples import Looked
from tfio_store.storage import open_store
from tfio_store.storage.store import Version


def numbered(count: int, nbytes: int = 200) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"row {i}", "blob": bytes(nbytes)} for i in range(count)]


def write(url: str, rows: list[dict[str, Any]], **options: Any) -> None:
    with tfs.ShardedWriter(url, **{"num_shards": 3, **options}) as writer:
        for row in rows:
            writer.write(row)


def ids(answer: dict[str, Any]) -> list[int]:
    return [int(dict(line["cells"])["id"]) for line in answer["lines"]]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZSTD"])
def test_pages_are_the_records_in_their_order(tmp_path: Path, compression: str | None) -> None:
    url = f"{tmp_path}/train"
    write(url, numbered(230), compression=compression, num_shards=3, block_bytes=4096)
    expected = tfs.decode_examples(list(tfs.RecordReader(url)), {"id": "int64"})["id"].tolist()
    with served(url) as client:
        assert client.ready()["of_records"] == 230
        found: list[int] = []
        for start in range(0, 230, 50):
            answer = client.get(f"/api/records?start={start}&count=50")
            assert (answer["start"], answer["of"]) == (start, 230)
            assert [line["number"] for line in answer["lines"]] == list(
                range(start, min(start + 50, 230))
            )
            found += ids(answer)
        assert found == expected
        assert client.ask("/api/records?start=230").status == 404


def test_a_source_without_records(tmp_path: Path) -> None:
    with tfs.ShardedWriter(f"{tmp_path}/none", num_shards=1):
        pass
    with served(f"{tmp_path}/none") as client:
        assert client.ready()["of_records"] == 0
        assert client.get("/api/records")["lines"] == []
        assert client.get("/api/rows")["lines"] == []
        assert client.ask("/api/record/0").status == 404
        assert client.ask("/api/row/0").status == 404


@pytest.mark.parametrize("options", [{}, {"compression": "GZIP"}, {"record_positions": False}])
def test_page_five_costs_two_reads_at_most(
    s3: Place, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Of a dataset with an index, counted at the store; so does a record far away."""
    pytest.importorskip("s3fs")
    url = s3.url("train")
    write(url, numbered(3000), storage_options=s3.storage_options, **options)
    reads = Counted(open_store(url, s3.storage_options)[0], monkeypatch)
    pager = Opening(url, storage=s3.storage()).open().pager
    assert pager is not None
    reads.clear()
    assert [paged.number for paged in pager.page(100, 20)] == list(range(100, 120))
    assert len(reads.ranges) <= 2
    reads.clear()
    assert pager.record(2500)
    assert len(reads.ranges) <= 1
    reads.clear()
    assert pager.record(2500)
    assert pager.record(105)
    assert reads.ranges == []


def test_a_page_over_the_end_of_a_shard_costs_two_reads(
    s3: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = s3.url("train")
    write(url, numbered(3000), storage_options=s3.storage_options)
    reads = Counted(open_store(url, s3.storage_options)[0], monkeypatch)
    pager = Opening(url, storage=s3.storage()).open().pager
    assert pager is not None
    reads.clear()
    assert len(list(pager.page(990, 20))) == 20
    assert len(reads.ranges) == 2


def test_a_hundred_thousand_shards_open_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of shards is in pages: a page of records reads one, a block table, and its block."""
    url = write_many(tmp_path, 100)
    reads = Counted(open_store(url, None)[0], monkeypatch)
    shown = Opening(url).open()
    assert len(shown.opened.dataset.shards) >= 100_000
    assert len(reads.ranges) <= 4
    assert shown.pager is not None
    far = len(shown.pager) * 2 // 3
    reads.clear()
    page = list(shown.pager.page(far, 20))
    assert [paged.record for paged in page] == [record((far + i) % BLOCKS) for i in range(20)]
    assert len(reads.ranges) <= 4
    reads.clear()
    assert list(shown.pager.page(far + 20, 20))
    assert len(reads.ranges) <= 2


def test_large_records_are_named_and_not_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{tmp_path}/train"
    write(url, numbered(20, 5 << 20), num_shards=2)
    reads = Counted(open_store(url, None)[0], monkeypatch)
    pager = Opening(url).open().pager
    assert pager is not None
    page = list(pager.page(0, 20))
    assert [paged.number for paged in page] == list(range(20))
    assert 1 <= sum(paged.record is not None for paged in page) <= PAGE_BYTES // (5 << 20)
    assert all(paged.nbytes >= 5 << 20 for paged in page)
    assert reads.nbytes <= 2 * PAGE_BYTES
    assert len(pager.record(19)) >= 5 << 20


MEMORY = r"""
import re, sys
from tests.show.served import viewed
with viewed(sys.argv[1]) as client:
    assert client.ready()["state"] == "ready"
    for start in (0, 10, 20, 30, 0):
        answer = client.ask(f"/api/records?start={start}&count=100")
        assert answer.status == 200 and len(answer.body) < 100_000, answer.body[:200]
    for number in range(0, 40, 5):
        answer = client.ask(f"/api/record/{number}")
        assert answer.status == 200 and len(answer.body) < 100_000, answer.body[:200]
    answer = client.ask("/api/rows?count=100")
    assert answer.status == 200 and len(answer.body) < 100_000, answer.body[:200]
    # not getrusage, which tells of the parent too
    status = open("/proc/self/status").read()
    print(int(re.search(r"VmHWM: *\t *([0-9]+)", status)[1]) // 1024)
"""


@pytest.mark.long
def test_features_of_ten_megabytes_take_little_memory(tmp_path: Path) -> None:
    """A sample, pages and records of them; and short answers."""
    url = f"{tmp_path}/train"
    write(url, [{"id": i, "blob": bytes(10 << 20)} for i in range(40)], num_shards=2)
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, url], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 500, run.stdout


def test_a_hundred_thousand_shards_are_viewed(tmp_path: Path) -> None:
    with viewed(write_many(tmp_path, 100)) as client:
        told = client.ready()
        assert told["facts"]["header"]["shards"] >= 100_000
        assert told["facts"]["scope"]["blocks"] == 64
        assert len(client.get("/api/records?start=50000000")["lines"]) == 20


def few(opened: Any, key: Any, on_progress: Any) -> Looked:
    """A sample of nothing."""
    small = f"{Path(opened.dataset.shards[0].url).parent}/small"
    tfs.write_table({"x": [1]}, small, if_exists="overwrite")
    return look_at_all(Opening(small).open().opened, key, on_progress)


class TestFilesWithoutAnIndex:
    def test_small_local_ones_are_walked(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_bytes(framed([tfs.encode_example({"id": i}) for i in range(30)]))
        with served(f"{tmp_path}/f") as client:
            told = client.ready()
            assert (told["by_number"], told["of_records"]) == (True, 30)
            assert ids(client.get("/api/records?start=25")) == [25, 26, 27, 28, 29]

    def test_compressed_streams_show_the_sample(self, tmp_path: Path) -> None:
        data = framed([tfs.encode_example({"id": i}) for i in range(30)])
        (tmp_path / "f").write_bytes(gzip.compress(data))
        with served(f"{tmp_path}/f") as client:
            told = client.ready()
            assert told["by_number"] is False
            assert "compressed" in told["why"]
            assert client.ask("/api/records").json["error"] == told["why"]
            assert ids(client.get("/api/rows?start=28")) == [28, 29]

    def test_damaged_ones_show_the_sample(self, tmp_path: Path) -> None:
        data = bytearray(framed([tfs.encode_example({"id": i}) for i in range(30)]))
        data[8] ^= 1
        (tmp_path / "f").write_bytes(data)
        shown = Opening(f"{tmp_path}/f").open()
        assert shown.pager is None
        assert "damaged" in shown.why

    def test_remote_ones_are_never_walked(self, s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        url = s3.put("f", framed([bytes(1000)] * 1000))
        reads = Counted(open_store(url, s3.storage_options)[0], monkeypatch)
        shown = Opening(url, storage=s3.storage()).open()
        assert shown.pager is None
        assert "no index" in shown.why
        assert reads.nbytes <= 4096


def test_an_error_is_told_in_words(tmp_path: Path) -> None:
    with served(f"{tmp_path}/nothing") as client:
        told = client.ready()
        assert told["state"] == "failed"
        assert "nothing" in told["error"]
        assert "Check the URL" in told["error"]
        assert "Traceback" not in json.dumps(told)
        assert client.ask("/api/records").status == 502
        assert "Check the URL" in client.ask("/api/records").json["error"]


def test_a_replaced_shard_asks_for_a_new_start() -> None:
    said = in_words(Version("a").replaced("train-0"))
    assert said.endswith("Start tfio-store view again.")


def test_no_secret_is_told(s3: Place) -> None:
    secret = "hunter2hunter2"
    options = {
        **s3.storage_options,
        "secret": secret,
        "endpoint_url": f"http://u:{secret}@127.0.0.1:9",
    }
    options["retries"] = 0
    storage = tfs.Storage(s3.storage_options | {"secret": secret})
    with served(s3.url("train"), storage=storage) as client:
        told = client.ready()
        assert told["state"] == "failed"
        assert secret not in json.dumps(told)


@pytest.mark.parametrize("positions", [True, False])
def test_a_damaged_record_is_told_with_its_place(tmp_path: Path, positions: bool) -> None:
    """All others of its block are there."""
    url = f"{tmp_path}/train"
    write(url, numbered(300), num_shards=1, record_positions=positions)
    (shard,) = tmp_path.glob("train-*")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with served(url, look=few) as client:
        client.ready()
        answers = [client.ask(f"/api/record/{number}") for number in range(140, 160)]
        (bad,) = (answer for answer in answers if answer.status != 200)
        assert "offset" in bad.json["error"]
        assert "verify" in bad.json["error"]
        lines = client.get("/api/records?start=140&count=20")["lines"]
        (line,) = (line for line in lines if "fault" in line)
        assert line["fault"] == bad.json["error"]
        assert answers[line["number"] - 140] is bad
        assert sum(bool(line["cells"]) for line in lines) == 19


def test_a_slow_store_holds_up_nobody_else(tmp_path: Path) -> None:
    """Records wait for a store that does not answer; the page and the facts come all the same."""
    url = f"{tmp_path}/train"
    write(url, numbered(30))
    released = threading.Event()

    class Stuck(Pager):
        def record(self, number: int) -> bytes:
            released.wait(60)
            return super().record(number)

    def opened() -> Any:
        shown = Opening(url).open()
        stuck = Stuck(shown.opened.dataset, max_record_bytes=1 << 20)
        return type(shown)(shown.opened, stuck)

    with served_by(opened, look_at_all) as client:
        client.log_in().ready()
        asking = [threading.Thread(target=client.ask, args=(f"/api/record/{i}",)) for i in range(8)]
        for each in asking:
            each.start()
        time.sleep(0.3)
        assert client.ask("/").status == 200
        assert client.get("/api/facts")["state"] == "ready"
        released.set()
        for each in asking:
            each.join(30)
        assert client.get("/api/record/3")["number"] == 3


class TestSamples:
    def test_the_page_is_there_before_the_sample(self, tmp_path: Path) -> None:
        url = f"{tmp_path}/train"
        write(url, numbered(30))
        released = threading.Event()

        def slow(*arguments: Any) -> Looked:
            released.wait(60)
            return look_at_all(*arguments)

        with served(url, look=slow) as client:
            assert client.ask("/").status == 200
            assert client.get("/api/facts")["state"] == "working"
            assert client.ask("/api/row/0").status == 503
            released.set()
            assert client.ready()["facts"]["scope"]["records"] == 30

    def test_a_seed_names_a_sample(self, tmp_path: Path) -> None:
        url = f"{tmp_path}/train"
        write(url, numbered(30))
        taken: list[Any] = []

        def noted(opened: Any, key: Any, on_progress: Any) -> Looked:
            taken.append((key.seed, key.blocks))
            return look_at_all(opened, key, on_progress)

        with served(url, look=noted) as client:
            for query in ("", "?seed=1", "?seed=1", "", "?seed=2&blocks=9", "?seed=2&blocks=9"):
                told = client.ready(query)
                assert told["facts"]["scope"]["seed"] == told["seed"]
            assert taken == [(0, 8), (1, 8), (2, 9)]
            client.ready("?seed=1")  # two are kept
            assert taken == [(0, 8), (1, 8), (2, 9), (1, 8)]

    def test_many_at_once_are_refused(self, tmp_path: Path) -> None:
        url = f"{tmp_path}/train"
        write(url, numbered(30))
        released = threading.Event()

        def slow(*arguments: Any) -> Looked:
            released.wait(60)
            return look_at_all(*arguments)

        with served(url, look=slow) as client:
            statuses = [client.ask(f"/api/facts?seed={seed}").status for seed in range(5)]
            assert statuses == [200, 200, 503, 503, 503]
            released.set()
            client.ready("?seed=1")
            assert client.ready("?seed=4")["state"] == "ready"

    def test_one_that_failed_is_taken_again(self, tmp_path: Path) -> None:
        url = f"{tmp_path}/train"
        write(url, numbered(30))
        faults = [OSError("the line is dead"), None]

        def failing(*arguments: Any) -> Looked:
            fault = faults.pop(0)
            if fault is not None:
                raise fault
            return look_at_all(*arguments)

        with served(url, look=failing) as client:
            told = client.ready()
            assert told["state"] == "failed"
            assert told["error"].startswith("the line is dead. ")
            assert client.ready()["state"] == "ready"


def test_two_servers_at_once(tmp_path: Path) -> None:
    for name in "ab":
        write(f"{tmp_path}/{name}", numbered(3))
    with served(f"{tmp_path}/a") as one, served(f"{tmp_path}/b") as two:
        assert one.port != two.port
        both = {"Cookie": f"{one.cookie}; {two.cookie}"}
        assert one.ask("/api/facts", headers=both).status == 200
        assert two.ask("/api/facts", headers=both).status == 200
