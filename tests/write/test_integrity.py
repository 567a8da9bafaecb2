"""A bit that changes between the writer and the store stops the commit."""

from __future__ import annotations

import base64
import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store
from tests.servers.moto import KEY, SECRET
from tests.servers.place import Place
from tests.servers.process import free_port, running
from tests.servers.shaping_proxy import Shaped
from tests.support.long import first
from tests.support.sharded import read, sharded
from tests.write.test_file_writer import pending
from tfio_store.storage import storage as opening


class FlippingOutput:
    """Changes one bit of one write on its way to the real output."""

    def __init__(self, output: Any, store: FlippingStore) -> None:
        self._output = output
        self._store = store
        self._bytes = b""

    def write(self, data: Any) -> None:
        changed = bytearray(data)
        if self._store.countdown == 0:
            changed[len(changed) // 2] ^= 0x10
        self._store.countdown -= 1
        self._bytes += changed
        self._output.write(changed)

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> Any:
        # the real one would compare crc32c itself: here the damage happens behind it
        stored = self._output.commit(if_absent=if_absent)
        return replace(stored, crc32c=tfs.crc32c(self._bytes) if self._store.reports else None)

    def abort(self) -> None:
        self._output.abort()


class FlippingStore:
    """A store in front of another one. ``reports``: whether it tells CRC32Cs of what it keeps."""

    def __init__(self, store: Any, countdown: int, reports: bool) -> None:
        self._store = store
        self.countdown = countdown
        self.reports = reports

    def open_output(self, path: str, **options: Any) -> FlippingOutput:
        return FlippingOutput(self._store.open_output(path, **options), self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def flip(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], None]:
    """``flip(n, reports)``: from now on the n-th write is damaged."""

    real = opening.open_store  # type: ignore[attr-defined]

    def install(countdown: int, reports: bool) -> None:
        def open_flipping(*args: Any, **options: Any) -> Any:
            store, path = real(*args, **options)
            return FlippingStore(store, countdown, reports), path

        monkeypatch.setattr(opening, "open_store", open_flipping)

    return install


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("write", [0, 3, 7])
def test_a_flipped_bit_is_caught(
    place: Place,
    flip: Callable[[int, bool], None],
    compression: str | None,
    reports: bool,
    write: int,
) -> None:
    if place.root.startswith("s3:") and compression is not None:
        pytest.skip("once is enough")
    flip(write, reports)
    writer = sharded(place, compression=compression, verify_uploads=not reports, num_shards=2)
    writer.write_batch([b"%d" % i + bytes(1 << 20) for i in range(8)])
    with pytest.raises(OSError, match="CRC32C"):
        writer.close()
    assert place.names() == []
    assert not pending(place)


def test_without_a_flip_all_is_well(place: Place, flip: Callable[[int, bool], None]) -> None:
    flip(-1, True)
    with sharded(place, verify_uploads=True) as writer:
        writer.write_batch([bytes(1000)] * 100)
    assert len(read(place, "ds/train")) == 100


def test_a_job_catches_it_too(tmp_path: Path, flip: Callable[[int, bool], None]) -> None:
    flip(0, True)
    place = Place(str(tmp_path))
    with (
        tfs.WriteJob(place.url("ds/train"), num_shards=1) as job,
        pytest.raises(OSError, match="CRC32C"),
    ):
        job.write_shard(0, [b"x"])
    assert place.names() == []


@pytest.mark.long
@pytest.mark.parametrize("records", [20, 2000])
def test_a_bit_flipped_on_the_wire_is_caught(
    ceph: Place, shaped: Callable[..., Shaped], records: int
) -> None:
    """Small shards are one PUT each, large ones multipart uploads. The store refuses what it gets,
    and the request is made again; or the writer gives up. A wrong byte is never committed."""
    flips = 0
    for seed in range(3):
        line = shaped(ceph.endpoint, p_flip=0.4, seed=seed)
        faulty = ceph.through(line.endpoint)
        storage = faulty.storage(retry=tfs.Retry(4, 0.01))
        try:
            with sharded(faulty, f"ds/{seed}", num_shards=2, storage=storage) as writer:
                writer.write_batch([bytes(10_000)] * records)
        except OSError:
            assert f"ds/_{seed}.manifest.json" not in ceph.names()
        else:
            assert read(ceph, f"ds/{seed}") == [bytes(10_000)] * records
        flips += line.counts()["flip"]
    assert flips > 0


def race(url: str, options: dict[str, Any], who: int, begin: Any, results: Any) -> None:
    begin.wait()
    try:
        with tfs.ShardedWriter(url, num_shards=2, storage_options=options) as writer:
            writer.write_batch([b"%d" % who] * 1000)
        results.put((who, "won"))
    except FileExistsError as error:
        results.put((who, "lost" if "ds/train" in str(error) else str(error)))


@pytest.mark.parametrize("attempt", first(1, range(3)))
def test_of_racing_processes_exactly_one_wins(place: Place, attempt: int) -> None:
    if place.root.startswith("memory:"):
        pytest.skip("memory is one process's own")
    context = multiprocessing.get_context("spawn")
    begin, results = context.Barrier(3), context.Queue()
    racers = [
        context.Process(
            target=race, args=(place.url("ds/train"), place.storage_options, who, begin, results)
        )
        for who in range(3)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    outcome = dict(results.get(timeout=10) for _ in racers)
    assert sorted(outcome.values()) == ["lost", "lost", "won"]
    winner = next(who for who, what in outcome.items() if what == "won")
    assert read(place, "ds/train") == [b"%d" % winner] * 1000
    assert len(place.names()) == 4


@pytest.mark.parametrize("nbytes", [1 << 20, 20 << 20])
def test_a_server_whose_own_checksum_is_wrong_is_said_to_be(s3: Place, nbytes: int) -> None:
    record = bytes(range(256)) * (nbytes // 256)
    name = "train-00000-of-00001.tfrecord"

    def answer(request: Request, forward: Forward) -> Answer:
        found = forward(request)
        if request.method not in ("HEAD", "PUT") or name not in request.path:
            return found
        return found.header("x-amz-checksum-crc32c", base64.b64encode(bytes(4)).decode())

    with rewriting_store(s3.endpoint, answer) as url:
        options = {**s3.storage_options, "endpoint_url": url}
        writer = tfs.ShardedWriter(s3.url("train"), num_shards=1, storage_options=options)
        writer.write(record)
        with pytest.raises(OSError, match="computes checksums wrongly") as caught:
            writer.close()
    assert "this server computes checksums wrongly: 's3://" in str(caught.value)
    assert s3.names() == []


def test_moto_without_its_package_is_recognised() -> None:
    """It answers a CRC32 in place of a CRC32C, and for uploads in parts alone."""
    boto3 = pytest.importorskip("boto3")
    program = "import sys; sys.modules['crc32c'] = None; from tests.servers.moto import serve"
    port = free_port()
    argv = [sys.executable, "-c", f"{program}; serve({port})"]
    with running(argv, port=port):
        url = f"http://127.0.0.1:{port}"
        who = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **who)
        client.create_bucket(Bucket="bucket")
        storage = tfs.Storage({"endpoint_url": url, "key": KEY, "secret": SECRET})
        with tfs.ShardedWriter("s3://bucket/small", num_shards=1, storage=storage) as writer:
            writer.write(b"one request")
        writer = tfs.ShardedWriter("s3://bucket/large", num_shards=1, storage=storage)
        writer.write(bytes(20 << 20))
        with pytest.raises(OSError, match="this is moto without the package") as caught:
            writer.close()
        assert "pip install 'moto[server,s3crc32c]', and start it again" in str(caught.value)
        assert tfs.RecordReader("s3://bucket/small", storage=storage).num_records == 1
        assert client.list_objects_v2(Bucket="bucket", Prefix="large")["KeyCount"] == 0
