"""`verify` reads a distant object once, and finds all that it finds in files that are near."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store
from tests.servers.place import Place

DRAWN = random.Random(3)
RECORDS = [DRAWN.randbytes(DRAWN.randrange(2000, 9000)) for _ in range(2000)]


def written(place: Place, compression: str | None) -> dict[str, bytes]:
    """The files of a dataset."""
    options: dict[str, Any] = {"compression": compression, "storage_options": place.storage_options}
    with tfs.ShardedWriter(place.url("train"), num_shards=2, **options) as writer:
        writer.write_batch(RECORDS)
    return {name: place.get(name) for name in place.names()}


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_each_shard_is_downloaded_once(s3: Place, compression: str | None) -> None:
    files = written(s3, compression)
    nbytes = sum(len(data) for name, data in files.items() if not name.startswith("_"))
    sent = []

    def count(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        if request.method == "GET" and "tfrecord" in request.path:
            sent.append(len(answer.body))
        return answer

    with rewriting_store(s3.endpoint, count) as url:
        options = {**s3.storage_options, "endpoint_url": url}
        report = tfs.verify(s3.url("train"), storage_options=options)
    assert report.ok
    assert report.records == len(RECORDS)
    assert sum(sent) == nbytes


def damage(data: bytes, kind: str) -> bytes:
    changed = bytearray(data)
    if kind == "header":  # a time of the first GZIP member, which no record's checksum covers
        changed[4] ^= 1
    elif kind == "middle":
        changed[len(data) // 2] ^= 1
    elif kind == "end":
        changed[-1] ^= 1
    elif kind == "short":
        del changed[-100:]
    return bytes(changed)


@pytest.mark.parametrize("kind", ["header", "middle", "end", "short", "gone"])
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_what_is_wrong_is_found_as_in_local_files(
    s3: Place, tmp_path: Path, compression: str | None, kind: str
) -> None:
    files = written(s3, compression)
    shard = next(name for name in files if name.startswith("train-00001"))
    files[shard] = damage(files[shard], kind)
    if kind == "gone":
        del files[shard]
        s3.fs.rm_file(s3.fs._strip_protocol(s3.url(shard)))
    else:
        s3.put(shard, files[shard])
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    near = tfs.verify(tmp_path / "train")
    far = tfs.verify(s3.url("train"), storage_options=s3.storage_options)
    assert not near.ok
    assert (far.records, far.nbytes) == (near.records, near.nbytes)
    for ours, theirs in ((far.problems, near.problems), (far.skipped, near.skipped)):
        here = json.dumps([str(each) for each in theirs])
        assert json.dumps([str(each) for each in ours]) == here.replace(str(tmp_path), s3.root)
