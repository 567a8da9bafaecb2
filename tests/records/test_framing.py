"""Framing: what is written, what is found again, and every kind of damage."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.cores import both_cores, framed, header
from tests.vectors.make_vectors import NAMES, golden, records
from tfio_store import errors
from tfio_store.records.framing import RecordDecoder

THREE = [b"first", b"", b"the third record"]
RECORDS = st.lists(st.binary(max_size=200), max_size=20)


@both_cores
@given(given=RECORDS)
def test_written_and_found(core, given):
    writer = core.FrameWriter()
    writer.write_many(given)
    data = bytes(writer.take())
    assert data == framed(*given)
    found = core.scan(data)
    assert found.batch.tolist() == given
    assert (found.end, found.fault, found.need) == (len(data), None, 0)


@both_cores
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_tensorflows(core, name):
    writer = core.FrameWriter()
    writer.write_many(records(name))
    assert bytes(writer.take()) == golden(name).read_bytes()
    assert core.scan(golden(name).read_bytes()).batch.tolist() == records(name)


@both_cores
@pytest.mark.tensorflow
def test_tensorflow_writes_the_same(core, tmp_path):
    import tensorflow as tf

    sizes = [*range(300), *range(300, 70_000, 1777), 20 << 20]
    given = [bytes([size % 251]) * size for size in sizes]
    with tf.io.TFRecordWriter(str(tmp_path / "x")) as theirs:
        for record in given:
            theirs.write(record)
    ours = core.FrameWriter()
    ours.write_many(given)
    assert bytes(ours.take()) == (tmp_path / "x").read_bytes()


@both_cores
def test_every_way_of_writing_is_the_same(core):
    one, many, flat, batch = (core.FrameWriter() for _ in range(4))
    for record in THREE:
        one.write(record)
    many.write_many(iter(THREE))
    flat.write_flat(b"".join(THREE), [0, 5, 5, 21])
    batch.write_batch(core.RecordBatch.from_records(THREE))
    for writer in (one, many, flat, batch):
        assert (writer.nbytes, writer.records) == (len(framed(*THREE)), 3)
        assert bytes(writer.take()) == framed(*THREE)
        assert (writer.nbytes, writer.records) == (0, 0)


@both_cores
def test_taken_bytes_outlive_the_writer(core):
    writer = core.FrameWriter(1 << 16)
    writer.write(b"a" * 100_000)
    taken = writer.take()
    writer.write(b"b" * 100_000)
    del writer
    assert taken.readonly
    assert taken == framed(b"a" * 100_000)


@both_cores
def test_a_failed_write_changes_nothing(core):
    writer = core.FrameWriter()
    writer.write(b"good")
    with pytest.raises(TypeError, match="record must be bytes-like, not str"):
        writer.write("text")
    with pytest.raises(TypeError, match="record must be bytes-like, not int"):
        writer.write_many([b"good", 3])
    with pytest.raises(ValueError, match="lies outside"):
        writer.write_flat(b"abc", [0, 2, 4])
    with pytest.raises(ValueError, match="lies outside"):
        writer.write_flat(b"abc", [2, 1])
    assert bytes(writer.take()) == framed(b"good")


@both_cores
def test_every_flipped_byte_is_found(core):
    good = framed(*THREE)
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x10
        found = core.scan(bytes(bad))
        assert found.fault in ("length_crc", "data_crc")
        assert found.end <= position
        assert found.batch.tolist() == THREE[: len(found.batch)]
        decoder = RecordDecoder(path="a.tfrecord")
        decoder.feed(bytes(bad))
        with pytest.raises(errors.CorruptRecordError) as caught:
            decoder.finish()
        assert (caught.value.path, caught.value.offset) == ("a.tfrecord", found.end)


@both_cores
def test_every_cut_is_found(core):
    good = framed(*THREE)
    starts = [0, 21, 37, len(good)]
    for size in range(len(good)):
        found = core.scan(good[:size])
        assert found.fault is None
        assert found.end == max(start for start in starts if start <= size)
        header_is_cut = size - found.end < 12
        whole = min(start for start in starts if start > found.end) - found.end
        assert found.need == (0 if size == found.end else 12 if header_is_cut else whole)


@both_cores
def test_a_huge_claim_is_refused_by_its_header(core):
    data = framed(b"good") + header(2**60)
    found = core.scan(data)
    assert (found.batch.tolist(), found.end, found.fault) == ([b"good"], 20, "too_large")
    assert found.need == 2**60
    for length in (2**63, 2**64 - 1, 2**64 - 16):
        assert core.scan(header(length), max_record_bytes=2**70).fault == "too_large"


@both_cores
def test_the_limit_is_inclusive(core):
    data = framed(b"12345")
    assert core.scan(data, max_record_bytes=5).fault is None
    assert core.scan(data, max_record_bytes=4).fault == "too_large"


@both_cores
def test_verify_false_still_checks_lengths(core):
    data = bytearray(framed(b"first", b"second"))
    data[13] ^= 1
    assert core.scan(data).fault == "data_crc"
    assert core.scan(data, verify=False).batch[1] == b"second"
    data[0] ^= 1
    assert core.scan(data, verify=False).fault == "length_crc"


@both_cores
def test_max_records_and_start(core):
    data = framed(*THREE)
    found = core.scan(data, start=21, max_records=1)
    assert (found.batch.tolist(), found.end, found.need) == ([b""], 37, 0)
    assert core.scan(data, max_records=0).end == 0
    assert core.scan(data, start=len(data)).end == len(data)
    for start in (-1, len(data) + 1):
        with pytest.raises(ValueError, match="start"):
            core.scan(data, start=start)


@both_cores
def test_many_short_records(core):
    records = [b"%d" % (i % 7) for i in range(10_000)]
    assert core.scan(framed(*records)).batch.tolist() == records
    empty = framed(b"") * 5000
    assert len(core.scan(empty).batch) == 5000
    assert core.walk(empty)[1] == len(empty)


@both_cores
def test_walk(core):
    data = framed(*THREE)
    for size in range(len(data) + 1):
        frames, end, fault = core.walk(data[:size])
        assert fault is None
        assert frames.tolist() == [start for start in (0, 21, 37) if start + 12 <= size]
        assert end == {0: 0, 1: 21, 2: 37, 3: len(data)}[len(frames)]
    assert core.walk(data[:21] + b"\0" * 12)[1:] == (21, "length_crc")
    assert core.walk(header(2**40))[1:] == (0, "too_large")
    assert core.walk(header(2**20))[1] == 2**20 + 16


@both_cores
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.lists(st.sampled_from([0, 7, 100, 5_000, 70_000, 300_000]), max_size=30))
def test_walk_file_finds_what_walk_finds(core, tmp_path, sizes):
    data = framed(*(bytes(size) for size in sizes))
    path = tmp_path / "records"
    for damage in (None, len(data) // 2):
        changed = bytearray(data)
        if damage is not None and data:
            changed[damage] ^= 1
        path.write_bytes(changed)
        with path.open("rb") as file:
            found = core.walk_file(file.fileno(), len(data))
        expected = core.walk(changed)
        assert (found[0].tolist(), *found[1:3]) == (expected[0].tolist(), *expected[1:])
        # the sums are those of a scan that checks no data
        ends = [*found[0].tolist(), found[1]]
        assert found[3].tolist() == [
            core.scan(changed[:end], verify=False).summed for end in ends if end <= len(data)
        ]


@both_cores
def test_walk_file_says_where_a_shorter_file_ends(core, tmp_path):
    data = framed(*THREE)
    path = tmp_path / "records"
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with path.open("rb") as file:
            frames, end, fault, _ = core.walk_file(file.fileno(), size)
        assert (frames.tolist(), end, fault) == (
            core.walk(data[:size])[0].tolist(),
            core.walk(data[:size])[1],
            None,
        )
    with path.open("rb") as file:
        frames, end, fault, _ = core.walk_file(file.fileno(), 10_000)  # it was longer once
    assert end < 10_000
    with pytest.raises(OSError, match="Bad file descriptor"):
        core.walk_file(-1, 100)


@both_cores
def test_find_record(core):
    data = b"rubbish" + framed(b"first", b"second")
    assert core.find_record(data)[:2] == (7, True)
    assert core.find_record(data, start=8)[:2] == (28, True)
    assert core.find_record(data, start=29)[:2] == (len(data) - 11, False)
    assert core.find_record(b"x" * 11)[:2] == (0, False)
    assert core.find_record(b"")[:2] == (0, False)
    cut = b"\0" * 100 + framed(b"a record that is cut")[:-1]
    assert core.find_record(cut)[:2] == (100, False)
    assert core.find_record(cut, final=True)[:2] == (len(cut), False)
    assert core.find_record(cut + framed(b"whole"), final=True)[:2] == (len(cut), True)


@both_cores
def test_find_record_has_patience(core):
    """Each bad frame is looked at as long as it pays; short ones always."""
    good, long, short = framed(b"good" * 2000), bytearray(framed(b"l" * 5000)), framed(b"s")
    long[-1] ^= 1
    data = bytes(long) * 3 + good + short
    first = 3 * len(long)
    assert core.find_record(data, patience=15_001) == (first, True, 1)
    assert core.find_record(data, patience=14_000) == (first + len(good), True, 0)
    assert core.find_record(data, patience=0) == (first + len(good), True, 0)
    assert core.find_record(data) == (first, True, 16 * len(data) + (1 << 20) - 15_000)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def fill(decoder: RecordDecoder, piece: bytes):
    decoder.reserve(len(piece) + 3)[: len(piece)] = piece
    return decoder.commit(len(piece))


@pytest.mark.parametrize("way", [RecordDecoder.feed, fill], ids=["feed", "reserve"])
@pytest.mark.parametrize("size", [1, 2, 5, 12, 13, 21, 50, 1000])
def test_decoder_in_pieces_of_any_size(way, size):
    records = [*THREE, b"x" * 300, b"", b"last"]
    decoder, found, batches = RecordDecoder(offset=1000), [], []
    for piece in pieces(framed(*records), size):
        batches.append(way(decoder, piece))
        found += batches[-1].tolist()
        assert decoder.offset == 1000 + len(framed(*found))
        assert decoder.need > 0
    decoder.finish()
    assert found == records
    assert [record for batch in batches for record in batch] == records  # still the same


@given(records=RECORDS, cuts=st.lists(st.integers(0, 4000)), extra=st.binary(max_size=30))
def test_decoder_agrees_with_scan_however_it_is_fed(records, cuts, extra):
    data = framed(*records) + extra
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    decoder, found = RecordDecoder(), []
    error = None
    try:
        for start, stop in pairwise(bounds):
            found += decoder.feed(data[start:stop]).tolist()
        decoder.finish()
    except errors.TFIOStoreError as raised:
        error = raised
    assert found == records
    assert decoder.offset == len(framed(*records))
    assert (error is not None) == bool(extra)


@given(
    given=RECORDS,
    damage=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 4000),
    size=st.integers(1, 500),
    limit=st.sampled_from([0, 10, 150, 1 << 30, 1 << 70]),
)
def test_decoder_gives_true_records_or_our_errors(given, damage, cut, size, limit):
    data = bytearray(framed(*given)[:cut])
    for position, value in damage:
        if position < len(data):
            data[position] = value
    decoder, found = RecordDecoder(max_record_bytes=limit, path="x"), []
    raised = None
    try:
        for piece in pieces(bytes(data), size):
            found += decoder.feed(piece).tolist()
        decoder.finish()
    except (errors.DataLossError, errors.RecordTooLargeError) as error:
        raised = error
    assert found == given[: len(found)]
    assert decoder.offset == len(framed(*found))
    assert (raised is None) == (decoder.offset == len(data))
    assert raised is None or raised.offset == decoder.offset


@given(data=st.binary(max_size=200))
def test_decoder_survives_any_bytes(data):
    decoder = RecordDecoder(max_record_bytes=1 << 70)
    decoder.feed(data)
    if not data:
        decoder.finish()
        return
    with pytest.raises(errors.DataLossError) as caught:  # no CRC holds by chance
        decoder.finish()
    assert caught.value.offset == 0


def test_decoder_stays_failed():
    bad = bytearray(framed(*THREE))
    bad[-1] ^= 1
    decoder = RecordDecoder(path="s3://bucket/x")
    assert decoder.feed(bad).tolist() == THREE[:2]
    for call in (lambda: decoder.feed(framed(b"good")), decoder.finish, lambda: decoder.reserve(1)):
        with pytest.raises(errors.CorruptRecordError) as caught:
            call()
        assert (caught.value.path, caught.value.offset) == ("s3://bucket/x", 37)


@pytest.mark.parametrize("size", range(1, 57))
def test_decoder_finds_the_end_cut(size):
    decoder = RecordDecoder(path="x")
    decoder.feed(framed(*THREE)[:size])
    if size in (21, 37):
        decoder.finish()
        return
    for _ in range(2):
        with pytest.raises(errors.TruncatedRecordError) as caught:
            decoder.finish()
    assert caught.value.offset == max(start for start in (0, 21, 37) if start <= size)


def test_decoder_refuses_a_huge_claim():
    decoder = RecordDecoder(path="x")
    decoder.feed(framed(b"good") + header(2**60))
    with pytest.raises(errors.RecordTooLargeError) as caught:
        decoder.feed(b"more")
    error = caught.value
    assert (error.offset, error.length, error.limit) == (20, 2**60, 2**30)


@both_cores
@pytest.mark.parametrize("size", [64 << 10, 100_000])
def test_decoder_fed_from_buffers(core, size, monkeypatch):
    """What a piece cuts goes into the room in front of the next piece's Buffer."""
    for name in ("scan", "Buffer", "prepend"):
        monkeypatch.setattr(f"tfio_store.records.framing.{name}", getattr(core, name))
    records = [bytes([i]) * n for i, n in enumerate([100, 70_000, 0, 33_000, 250_000, 31_000] * 5)]
    decoders = RecordDecoder(), RecordDecoder()
    found: tuple[list[Any], list[Any]] = [], []
    for piece in pieces(framed(*records), size):
        buffer = core.Buffer(size)
        memoryview(buffer)[: len(piece)] = piece
        for decoder, batches in zip(decoders, found, strict=True):  # both want the same room
            batches.append(decoder.feed(memoryview(buffer)[: len(piece)]))
            assert decoder.offset == len(framed(*(r for batch in batches for r in batch)))
        assert bytes(memoryview(buffer)[: len(piece)]) == piece
    for decoder, batches in zip(decoders, found, strict=True):
        decoder.finish()
        assert [record for batch in batches for record in batch] == records


@both_cores
def test_pieces_are_joined(core):
    pieces = [b"ab", memoryview(b"cde"), b"", bytearray(100_000)]
    assert bytes(core.joined(iter(pieces))) == b"abcde" + bytes(100_000)
    assert bytes(core.joined([])) == b""
    with pytest.raises(TypeError):
        core.joined(["text"])


def test_prepend():
    core = pytest.importorskip("tfio_store.records._core")
    buffer = core.Buffer(1 << 20)
    view = memoryview(buffer)[:10]
    view[:] = b"0123456789"
    assert core.prepend(b"x", memoryview(buffer)[1:5]) is None  # not its beginning
    assert core.prepend(bytes((1 << 19) + 1), view) is None  # more than there is room for
    assert core.prepend(b"x", b"plain bytes") is None
    assert core.prepend(b"x", memoryview(bytearray(10))) is None
    assert core.prepend(b"x", memoryview(core.Buffer(10))) is None
    joined = core.prepend(b"abc", view)
    assert joined.readonly
    view[0] = ord("-")
    assert joined == b"abc-123456789"
    assert core.prepend(b"x", view) is None  # the room is taken
    del buffer, view
    assert joined[:4] == b"abc-"


def test_decoder_copies_nothing_on_frame_boundaries():
    data = framed(*THREE)
    assert RecordDecoder().feed(data).buffer.obj is not None
    chunk = bytearray(data)
    batch = RecordDecoder().feed(chunk)
    with pytest.raises(BufferError):
        chunk.append(0)  # exported by the batch
    del batch
    chunk.append(0)
