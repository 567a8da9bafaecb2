"""Shards of another generation with the same names and sizes: an error names the file, and no
record of another version is given."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import pickle
import random
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.cores import framed
from tests.support.indexes import put_dataset
from tests.support.long import first, long_on_pure
from tfio_store.dataset.source import open_dataset
from tfio_store.errors import ReplacedError
from tfio_store.storage import Storage

SIZES = {"short": (100, 24_000), "positioned": (3_000, 800), "long": (20_000, 150)}
CODECS = [None, "GZIP", "ZLIB"]


def records(size: int, count: int, seed: int) -> list[bytes]:
    # of two values, so that codecs have something to do; sizes are the same of each seed
    draw = random.Random(seed)
    return [draw.randbytes(size) for _ in range(count)]


def write(folder: Path, kind: str, seed: int, **more: Any) -> list[bytes]:
    found = records(*SIZES[kind], seed)
    if "names" in more:
        halves = found[: len(found) // 2], found[len(found) // 2 :]
        with tfs.WriteJob(str(folder / "train"), **more) as job:
            job.commit([job.write(half, order=number) for number, half in enumerate(halves)])
        return found
    with tfs.ShardedWriter(str(folder / "train"), num_shards=2, **more) as writer:
        writer.write_batch(found)
    return found


def shards(folder: Path) -> list[Path]:
    return [Path(one.url) for one in open_dataset(str(folder / "train"), Storage()).shards]


def swap(folder: Path) -> None:
    one, other = shards(folder)
    one.rename(folder / "aside")
    other.rename(one)
    (folder / "aside").rename(other)


READS = {
    "records": lambda url: list(tfs.RecordReader(url)),
    "batches": lambda url: list(tfs.RecordReader(url).batches()),
    "unverified": lambda url: list(tfs.RecordReader(url, verify=False)),
    "shuffled": lambda url: list(tfs.RecordReader(url).shuffle(1)),
    "skip": lambda url: list(tfs.RecordReader(url, on_corrupt="skip")),
    "all": lambda url: tfs.RecordSource(url)[:],
    "one": lambda url: tfs.RecordSource(url)[3],
    "tables": lambda url: [list(one.batches()) for one in tfs.partitions(url)],
    "some": lambda url: tfs.RecordSource(url)[[3, 5, 90]],
    "copy": lambda url: tfs.copy(url, url + "-copy"),
}


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("kind", SIZES)
def test_shards_swapped(tmp_path: Path, kind: str, how: str) -> None:
    write(tmp_path, kind, seed=1)
    swap(tmp_path)
    with pytest.raises(ReplacedError, match="other records than its manifest") as error:
        READS[how](str(tmp_path / "train"))
    assert error.value.filename == str(shards(tmp_path)[0])
    assert not (tmp_path / "_train-copy.manifest.json").exists()  # nothing is laundered


@pytest.mark.parametrize("how", [how for how in READS if how != "skip"])
def test_a_shorter_shard_of_as_many_records(tmp_path: Path, how: str) -> None:
    """None of its records is given, though the file might as well have been cut."""
    for seed, folder in enumerate(("now", "then")):
        sizes = random.Random(0)
        with tfs.ShardedWriter(str(tmp_path / folder / "train"), num_shards=2) as writer:
            writer.write_batch(
                [b"%d" % seed * sizes.randrange(900 - 100 * seed) for _ in range(1_200)]
            )
    first = shards(tmp_path / "now")[0]
    shutil.copyfile(shards(tmp_path / "then")[0], first)
    given: list[bytes] = []
    with pytest.raises((ReplacedError, tfs.DataLossError)) as error:
        if how == "records":
            given.extend(tfs.RecordReader(str(tmp_path / "now" / "train")))
        READS[how](str(tmp_path / "now" / "train"))
    assert not given
    assert str(first) in str(error.value)


@pytest.mark.parametrize("codec", CODECS)
def test_a_shard_from_a_backup(tmp_path: Path, codec: str | None) -> None:
    write(tmp_path / "now", "long", seed=1, compression=codec)
    write(tmp_path / "then", "long", seed=2, compression=codec)
    second = shards(tmp_path / "now")[1]
    shutil.copyfile(shards(tmp_path / "then")[1], second)
    url = str(tmp_path / "now" / "train")
    if second.stat().st_size == open_dataset(url, Storage()).shards[1].nbytes:
        with pytest.raises(ReplacedError, match="other records"):
            list(tfs.RecordReader(url))
    else:
        with pytest.raises((ReplacedError, tfs.DataLossError)):
            list(tfs.RecordReader(url))
    report = tfs.verify(url)
    assert not report.ok
    assert str(second) in report.problems[0]


@pytest.mark.parametrize("change", ["overwritten", "written again"])
def test_an_open_source_and_an_unpickled_partition(tmp_path: Path, change: str) -> None:
    old = write(tmp_path, "short", seed=1, names="plain")
    url = str(tmp_path / "train")
    source, reader = tfs.RecordSource(url), tfs.RecordReader(url)
    pickles = [pickle.dumps(one) for one in (source, *tfs.partitions(url, target_bytes=1 << 20))]
    state = reader.state()
    if change == "overwritten":  # twice, so that the names are used again
        for seed in (2, 3):
            write(tmp_path, "short", seed, names="plain", if_exists="overwrite", keep_replaced=0)
    else:
        shutil.rmtree(tmp_path)
        write(tmp_path, "short", seed=3, names="plain")
    now = set(records(*SIZES["short"], 3))
    for read in (lambda: source[7], lambda: list(reader)):
        with pytest.raises((ReplacedError, FileNotFoundError)):
            read()
    for pickled in pickles:
        other = pickle.loads(pickled)
        with pytest.raises((ReplacedError, FileNotFoundError)):
            found = other[7] if isinstance(other, tfs.RecordSource) else list(other.batches())
            assert found not in now
    with pytest.raises((ReplacedError, ValueError), match="another") as error:
        tfs.RecordReader(url).restore(state)
    if isinstance(error.value, ReplacedError):
        assert error.value.filename == str(shards(tmp_path)[0])
    assert set(tfs.RecordReader(url)) == now
    assert len(old) == len(now)


def test_a_state_of_a_plain_file_that_was_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    for seed in (1, 2):
        with tfs.TFRecordWriter(str(path)) as writer:
            writer.write_batch(records(100, 50, seed))
        os.utime(path, (seed, seed))
        if seed == 1:
            reader = tfs.RecordReader(str(path))
            next(iter(reader))
            state = reader.state()
            shutil.copyfile(path, tmp_path / "moved")
    with pytest.raises(ReplacedError, match="another version") as error:
        tfs.RecordReader(str(path)).restore(state)
    assert error.value.filename == str(path)
    (tmp_path / "other").mkdir()
    (tmp_path / "moved").rename(tmp_path / "other" / "a.tfrecord")
    copied = tfs.RecordReader(str(tmp_path / "other" / "a.tfrecord"))
    copied.restore(state)  # a copy elsewhere: nobody knows better
    assert len(list(copied)) == 49
    del state["versions"]  # as earlier releases took it
    tfs.RecordReader(str(path)).restore(state)


@pytest.mark.parametrize("kind", SIZES)
def test_a_state_within_a_block(tmp_path: Path, kind: str) -> None:
    write(tmp_path, kind, seed=1)
    url = str(tmp_path / "train")
    whole = list(tfs.RecordReader(url))
    for given in (1, 7, 70):
        for batches in (False, True):
            reader = tfs.RecordReader(url)
            records = iter(reader)
            for _ in range(given):
                next(records)
            other = tfs.RecordReader(url)
            other.restore(reader.state())
            found = [r for b in other.batches() for r in b] if batches else list(other)
            assert found == whole[given:]
    swap(tmp_path)
    other = tfs.RecordReader(url)
    other.restore(reader.state())
    with pytest.raises(ReplacedError):
        next(iter(other))


@pytest.mark.parametrize("codec", CODECS)
def test_cut_and_packed_tables_keep_their_sums(tmp_path: Path, codec: str | None) -> None:
    found = write(tmp_path, "short", seed=1, compression=codec)
    url = str(tmp_path / "train")
    whole = list(tfs.RecordReader(url))
    part = tfs.slice(url, "5000:20001")
    assert list(tfs.RecordReader(part)) == whole[5_000:20_001]
    given = [
        r for one in tfs.partitions(url, target_bytes=300_000) for b in one.batches() for r in b
    ]
    assert given == whole
    assert sorted(found) == sorted(whole)


def test_sums_at_any_record_of_a_positioned_shard(tmp_path: Path) -> None:
    write(tmp_path, "positioned", seed=1)
    table = open_dataset(str(tmp_path / "train"), Storage()).shards[0].blocks
    assert table is not None
    assert table.sums is not None
    assert table.sum_before(0) == 0
    for block in range(len(table)):
        first, stop = table.records[[block, block + 1]].tolist()
        assert table.sum_before(stop) == int(table.sums[block + 1])
        middle = (first + stop) // 2
        assert table.sum_before(middle) not in (None, *np.asarray(table.sums).tolist())


def test_an_index_without_sums_is_read(tmp_path: Path) -> None:
    with tfs.ShardedWriter(str(tmp_path / "train"), num_shards=2) as writer:
        writer.write_batch(records(100, 3_000, 1))
    shards = []
    for one in writer.manifest.shards:
        assert one.blocks is not None
        shards.append(replace(one, blocks=replace(one.blocks, sums=None, crcs=None)))
    put_dataset(tmp_path / "train", replace(writer.manifest, shards=tuple(shards)))
    assert len(list(tfs.RecordReader(str(tmp_path / "train")))) == 3_000
    swap(tmp_path)  # then the manifest's CRC32C tells it when the whole shard is read
    with pytest.raises(ReplacedError):
        list(tfs.RecordReader(str(tmp_path / "train")))


def equal_sizes(folder: Path, letter: bytes, size: int) -> list[Path]:
    """Two raw files of several blocks, which have as many bytes whatever the records' size is."""
    count = 6_096_000 // (size + 16)
    with tfs.ShardedWriter(str(folder / "train"), num_shards=2, record_positions=False) as writer:
        writer.write_batch([b"%b%07d" % (letter, i) + bytes(size - 8) for i in range(count)])
    return shards(folder)


SKIPPING = {
    "records": lambda reader: ([record] for record in reader),
    "batches": lambda reader: reader.batches(),
    "shuffled": lambda reader: reader.shuffle(1).batches(),
    "a share": lambda reader: reader.shard(1, 2).batches(),
}


@pytest.mark.parametrize("size", [1000, 492, 1508])
@pytest.mark.parametrize("how", SKIPPING)
def test_skipping_damage_gives_nothing_of_another_generation(
    tmp_path: Path, size: int, how: str
) -> None:
    ours = equal_sizes(tmp_path / "ours", b"a", 1000)
    theirs = equal_sizes(tmp_path / "theirs", b"b", size)
    assert [path.stat().st_size for path in ours] == [path.stat().st_size for path in theirs]
    shutil.copyfile(theirs[1], ours[1])
    reader = tfs.RecordReader(str(tmp_path / "ours" / "train"), on_corrupt="skip")
    with pytest.raises(ReplacedError, match="other records") as error:
        for found in SKIPPING[how](reader):
            assert {record[:1] for record in found} <= {b"a"}
    assert error.value.filename == str(ours[1])


def compressed(
    folder: Path, codec: str, letter: bytes, size: int, nbytes: int = 6_000_000
) -> list[Path]:
    """Two shards of several blocks, whose bytes depend on the letter."""
    draw, url = random.Random(letter), str(folder / "train")
    with tfs.ShardedWriter(url, num_shards=2, compression=codec) as writer:
        writer.write_batch(
            [letter + draw.randbytes(size // 2).hex().encode() for _ in range(nbytes // size)]
        )
    return shards(folder)


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("size", first(1, [1000, 300, 4000]))
@pytest.mark.parametrize("how", SKIPPING)
def test_skipping_damage_gives_nothing_of_another_compressed_generation(
    tmp_path: Path, codec: str, size: int, how: str
) -> None:
    """Where its blocks lie elsewhere, they look damaged: no member is looked for inside a block.
    The first one lies in the same place, and is told from damage."""
    ours = compressed(tmp_path / "ours", codec, b"a", 1000)
    theirs = compressed(tmp_path / "theirs", codec, b"b", size)
    data, nbytes = theirs[1].read_bytes(), ours[1].stat().st_size
    ours[1].write_bytes(data[:nbytes] if len(data) > nbytes else data.ljust(nbytes, b"\0"))
    told: list[Any] = []
    reader = tfs.RecordReader(str(tmp_path / "ours" / "train"), on_corrupt=told.append)
    # a share lacks the first block
    with contextlib.nullcontext() if how == "a share" else pytest.raises(ReplacedError) as error:
        for found in SKIPPING[how](reader):
            assert {record[:1] for record in found} <= {b"a"}
    assert {region.path for region in told} <= {str(ours[1])}
    assert told if error is None else error.value.filename == str(ours[1])


@pytest.mark.parametrize("codec", ["GZIP", "ZSTD"])
@pytest.mark.parametrize("how", SKIPPING)
def test_another_file_whose_members_end_in_records_gives_nothing(
    tmp_path: Path, codec: str, how: str
) -> None:
    """Such as bgzip and pzstd write."""
    compress = gzip.compress
    if codec == "ZSTD":
        compress = pytest.importorskip("zstandard").ZstdCompressor().compress
    ours = compressed(tmp_path / "ours", codec, b"a", 1000)
    raw = framed(*[b"b" + random.Random(i).randbytes(500).hex().encode() for i in range(4000)])
    data = b"".join(compress(raw[at : at + 65_280]) for at in range(0, len(raw), 65_280))
    nbytes = ours[1].stat().st_size
    ours[1].write_bytes(data[:nbytes].ljust(nbytes, b"\0"))
    told: list[Any] = []
    reader = tfs.RecordReader(str(tmp_path / "ours" / "train"), on_corrupt=told.append)
    with contextlib.suppress(ReplacedError):
        for found in SKIPPING[how](reader):
            assert {record[:1] for record in found} <= {b"a"}
        assert told


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("at", [0, 1, 7, -1])
def test_a_compressed_shard_that_begins_elsewhere_gives_nothing(
    tmp_path: Path, codec: str, at: int
) -> None:
    """No block begins where one is expected, so only regions are told of."""
    first, second = compressed(tmp_path / "ours", codec, b"a", 1000)
    theirs = compressed(tmp_path / "theirs", codec, b"b", 1000)[1].read_bytes()
    nbytes = second.stat().st_size
    second.write_bytes((theirs[5_000:] + theirs)[at % nbytes :][:nbytes].ljust(nbytes, b"\0"))
    regions: list[Any] = []
    reader = tfs.RecordReader(str(tmp_path / "ours" / "train"), on_corrupt=regions.append)
    assert {record[:1] for record in reader} == {b"a"}
    assert {region.path for region in regions} == {str(second)}
    assert str(first) != str(second)


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("how", [how for how in SKIPPING if how != "a share"])
def test_a_shorter_compressed_shard_is_not_one_that_was_cut(
    tmp_path: Path, codec: str, how: str
) -> None:
    """Its one member has an end."""
    for folder, letter, count in (("ours", b"a", 300), ("theirs", b"b", 280)):
        with tfs.ShardedWriter(
            str(tmp_path / folder / "train"), num_shards=2, compression=codec
        ) as writer:
            writer.write_batch([letter * (100 + number) for number in range(2 * count)])
    ours, theirs = shards(tmp_path / "ours")[1], shards(tmp_path / "theirs")[1]
    sound = ours.read_bytes()
    assert theirs.stat().st_size < len(sound)
    shutil.copyfile(theirs, ours)
    regions: list[Any] = []
    reader = tfs.RecordReader(str(tmp_path / "ours" / "train"), on_corrupt=regions.append)
    with pytest.raises(ReplacedError, match="other records"):
        for found in SKIPPING[how](reader):
            assert {record[:1] for record in found} <= {b"a"}
    for nbytes in (len(sound) - 1, len(sound) - 8, len(sound) // 2):
        ours.write_bytes(sound[:nbytes])
        reader = tfs.RecordReader(str(tmp_path / "ours" / "train"), on_corrupt=regions.append)
        assert sum(map(len, SKIPPING[how](reader))) >= 300
        assert regions.pop().path == str(ours)


@long_on_pure
@pytest.mark.parametrize("codec", ["GZIP", "ZLIB", "ZSTD"])
def test_each_flip_in_a_compressed_block_is_damage(tmp_path: Path, codec: str) -> None:
    """Also in a header, in the end of the data and in a checksum: never another generation."""
    first, second = compressed(tmp_path, codec, b"a", 1000, 2_500_000)
    table = open_dataset(str(tmp_path / "train"), Storage()).shards[1].blocks
    assert table is not None
    whole, sound = list(tfs.RecordReader(str(tmp_path / "train"))), second.read_bytes()
    ends = table.offsets.tolist()
    draw = random.Random(codec)
    for place in [
        *(edge + step for edge in ends[1:-1] for step in range(-12, 12)),
        *(draw.randrange(len(sound)) for _ in range(60)),
    ]:
        data = bytearray(sound)
        data[place] ^= 1 << draw.randrange(8)
        second.write_bytes(data)
        regions: list[Any] = []
        reader = tfs.RecordReader(str(tmp_path / "train"), on_corrupt=regions.append)
        found = list(reader)
        assert set(found) <= set(whole)
        assert regions or found == whole  # a flag of a GZIP header means nothing here
    assert first.exists()


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB", "ZSTD"])
def test_a_flip_in_the_head_of_a_small_block_is_damage(tmp_path: Path, codec: str) -> None:
    """Of a frame whose head asks for more than there is, nothing comes. It was another's."""
    source = str(tmp_path / "train")
    records = [b"%07d" % number + random.Random(number).randbytes(100) for number in range(1000)]
    options: dict[str, Any] = {"num_shards": 1, "compression": codec, "block_bytes": 32 << 10}
    with tfs.ShardedWriter(source, **options) as writer:
        writer.write_batch(records)
    (path,) = tmp_path.glob("train-*.tfrecord")
    table, sound = open_dataset(source, Storage()).shards[0].blocks, path.read_bytes()
    assert table is not None
    for step, bit in itertools.product(range(14), range(8)):
        data = bytearray(sound)
        data[int(table.offsets[1]) + step] ^= 1 << bit
        path.write_bytes(data)
        regions: list[Any] = []
        found = list(tfs.RecordReader(source, on_corrupt=regions.append))
        assert set(found) <= set(records)
        assert regions or found == records


@pytest.mark.parametrize("how", SKIPPING)
def test_a_shorter_generation_is_never_passed_in_silence(tmp_path: Path, how: str) -> None:
    """Its whole blocks are compared. Of a block that is not all there nobody knows whose it is."""
    path = equal_sizes(tmp_path, b"a", 1000)[1]
    regions: list[Any] = []
    for count in (300, 5000):
        with tfs.TFRecordWriter(str(path)) as writer:
            writer.write_batch([b"b%07d" % number + bytes(484) for number in range(count)])
        reader = tfs.RecordReader(str(tmp_path / "train"), on_corrupt=regions.append)
        if count == 5000:
            with pytest.raises(ReplacedError, match="other records"):
                list(SKIPPING[how](reader))
            continue
        list(SKIPPING[how](reader))
        (region,) = regions
        assert (region.path, region.offset) == (str(path), 300 * 508)
        assert region.offset + region.length == 3_048_000
        assert "replaced by a shorter one" in region.reason


@pytest.mark.parametrize("how", [how for how in SKIPPING if how != "a share"])
def test_damage_in_several_blocks_is_skipped(tmp_path: Path, how: str) -> None:
    first, second = equal_sizes(tmp_path, b"a", 1000)
    whole = [r for found in SKIPPING[how](tfs.RecordReader(str(tmp_path / "train"))) for r in found]
    frame = 1016
    block = open_dataset(str(tmp_path / "train"), Storage()).shards[0].blocks
    assert block is not None
    edges = block.offsets[1:3].tolist()
    # a record in the middle, a block's first header, and its last record
    places = [10 * frame + 500, edges[0], edges[1] - 5]
    lost = set[bytes]()
    for path in (first, second):
        data = bytearray(path.read_bytes())
        for place in places:
            data[place] ^= 1
        path.write_bytes(data)
        lost |= {bytes(data[place // frame * frame + 12 :][:8]) for place in places}
    regions: list[Any] = []
    reader = tfs.RecordReader(str(tmp_path / "train"), on_corrupt=regions.append)
    left = [r for found in SKIPPING[how](reader) for r in found]
    assert sorted(left) == sorted(record for record in whole if record[:8] not in lost)
    assert 0 < len(whole) - len(left) == len(regions)


def test_a_stream_that_lost_bytes_is_read_on(tmp_path: Path) -> None:
    first, _ = equal_sizes(tmp_path, b"a", 1000)
    data = first.read_bytes()
    first.write_bytes(data[:500_000] + data[500_500:])
    with pytest.warns(tfs.errors.DataLossWarning):
        found = list(tfs.RecordReader(str(tmp_path / "train"), on_corrupt="skip"))
    assert len(found) == 6_000 - 1


# Files whose versions a listing does not tell: each is known from its first read on.


def unknown_until_read(count: int, seed: int = 0) -> str:
    folder = f"memory://versions-{uuid.uuid4().hex}"
    for number in range(count):
        rewrite(f"{folder}/{number:03d}.tfrecord", seed)
    return f"{folder}/*.tfrecord"


def rewrite(url: str, seed: int) -> None:
    with tfs.TFRecordWriter(url) as writer:
        writer.write_batch([b"%d-%03d" % (seed, number) for number in range(100)])


@pytest.mark.parametrize("files", [3, 70])
def test_a_state_binds_files_that_are_not_read_again_yet(files: int) -> None:
    url = unknown_until_read(files)
    reader = tfs.RecordReader(url)
    records = iter(reader)
    for _ in range(100 * files - 50):  # into the last file
        next(records)
    state = reader.state()
    restored = tfs.RecordReader(url)
    restored.restore(state)
    assert restored.state() == state
    pickled = pickle.dumps(restored)
    rewrite(url.replace("*", f"{files - 1:03d}"), seed=1)
    late = tfs.RecordReader(url)
    for one in (restored, pickle.loads(pickled), late):
        with pytest.raises(ReplacedError):
            if one is late:
                one.restore(state)
            next(iter(one))
    assert len(list(tfs.RecordReader(url))) == 100 * files


def test_states_of_shares_know_together_what_each_has_read() -> None:
    url = unknown_until_read(2)
    shares = [tfs.RecordReader(url).shard(number, 2) for number in range(2)]
    for share in shares:
        next(iter(share))
    states = [share.state() for share in shares]
    place, *marks = states[0]["versions"].split(" ")
    states[0]["versions"] = f"{place} {marks[0]} ?"  # as if neither had walked the other's file
    states[1]["versions"] = f"{place} ? {marks[1]}"
    assert {one["versions"] for one in tfs.reshard_state(states, 2)} == {
        f"{place} {' '.join(marks)}"
    }


def test_states_of_shares_that_read_two_versions_of_a_file() -> None:
    url = unknown_until_read(1)
    states = [tfs.RecordReader(url).shard(number, 3).state() for number in range(3)]
    place, mark = states[0]["versions"].split(" ")
    states[0]["versions"] = f"{place} ?"
    states[2]["versions"] = f"{place} {mark[:-1]}{'01'[mark[-1] == '0']}"
    with pytest.raises(ValueError, match=r"states\[2\] was taken of another version"):
        tfs.reshard_state(states, 2)
