"""Reading past damage: every record whose bytes are undamaged, and none that never was."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import random
import resource
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.support.framed import framed
from tfio_store.errors import Reason
from tfio_store.records.damage import LOOKS_LIKE
from tfio_store.records.framing import HEADER_BYTES
from tfio_store.records.recovery import RecoveringDecoder, SkippedRegion


def recovered(data: bytes, piece: int | None = None) -> tuple[list[bytes], list[SkippedRegion]]:
    skipped: list[SkippedRegion] = []
    decoder = RecoveringDecoder(skipped.append)
    records: list[bytes] = []
    for at in range(0, len(data), piece or max(len(data), 1)):
        records += decoder.feed(data[at : at + (piece or len(data))])
    records += decoder.finish()
    return records, skipped


def without_guess(regions: list[SkippedRegion]) -> list[SkippedRegion]:
    """What the file looks like is a guess by the bytes that have come, and the kind says it too."""
    return [
        replace(one, reason=one.reason.partition(LOOKS_LIKE)[0], kind=Reason.CONTENT)
        for one in regions
    ]


ITEMS = [b"record-%d-" % i + bytes(range(i % 50)) for i in range(20)]
FRAMES = [framed([item]) for item in ITEMS]
WHOLE = b"".join(FRAMES)
STARTS = [sum(map(len, FRAMES[:i])) for i in range(21)]


def check(damaged: bytes, lost: set[int]) -> list[SkippedRegion]:
    """Fed whole, in small pieces and byte by byte: the same records and regions."""
    expected = [item for i, item in enumerate(ITEMS) if i not in lost]
    records, skipped = recovered(damaged)
    assert records == expected
    for piece in (1, 7, 64):
        assert recovered(damaged, piece) == (records, skipped)
    assert all(region.length is not None and region.length > 0 for region in skipped)
    return skipped


class TestKindsOfDamage:
    def test_none(self) -> None:
        assert check(WHOLE, set()) == []

    def test_a_flipped_data_byte(self) -> None:
        at = STARTS[5] + 12
        data = WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]
        (region,) = check(data, {5})
        assert (region.offset, region.length) == (STARTS[5], len(FRAMES[5]))

    def test_a_flipped_length_byte(self) -> None:
        data = WHOLE[: STARTS[5]] + bytes([WHOLE[STARTS[5]] ^ 1]) + WHOLE[STARTS[5] + 1 :]
        (region,) = check(data, {5})
        assert (region.offset, region.length) == (STARTS[5], len(FRAMES[5]))

    def test_two_neighbours(self) -> None:
        data = bytearray(WHOLE)
        data[STARTS[5] + 13] ^= 1
        data[STARTS[6] + 13] ^= 1
        check(bytes(data), {5, 6})

    def test_the_first(self) -> None:
        check(b"\xff" + WHOLE[1:], {0})

    def test_the_last(self) -> None:
        check(WHOLE[:-1] + bytes([WHOLE[-1] ^ 1]), {19})

    def test_cut_at_the_end(self) -> None:
        (region,) = check(WHOLE[:-3], {19})
        assert region.offset == STARTS[19]

    def test_cut_inside_the_last_header(self) -> None:
        check(WHOLE[: STARTS[19] + 5], {19})

    def test_removed_bytes(self) -> None:
        check(WHOLE[: STARTS[5] + 13] + WHOLE[STARTS[5] + 15 :], {5})

    def test_inserted_bytes_within_a_record(self) -> None:
        check(WHOLE[: STARTS[5] + 14] + b"junk" + WHOLE[STARTS[5] + 14 :], {5})

    def test_inserted_bytes_between_records(self) -> None:
        (region,) = check(WHOLE[: STARTS[5]] + b"junk" * 9 + WHOLE[STARTS[5] :], set())
        assert (region.offset, region.length) == (STARTS[5], 36)

    def test_a_missing_middle(self) -> None:
        check(WHOLE[: STARTS[5] + 3] + WHOLE[STARTS[9] + 4 :], {5, 6, 7, 8, 9})

    def test_zeros_where_a_page_was_lost(self) -> None:
        check(WHOLE[: STARTS[5]] + bytes(STARTS[9] - STARTS[5]) + WHOLE[STARTS[9] :], {5, 6, 7, 8})

    def test_only_junk(self) -> None:
        junk = random.Random(1).randbytes(5000)
        records, (region,) = recovered(junk)
        assert records == []
        assert (region.offset, region.length) == (0, 5000)

    def test_frames_inside_a_damaged_record_are_not_records(self) -> None:
        inner = framed([b"inner"] * 3)
        data = bytearray(framed([b"before", inner + b"tail", b"after"]))
        data[len(framed([b"before"])) + 12 + len(inner)] ^= 1
        records, (region,) = recovered(bytes(data))
        assert records == [b"before", b"after"]
        assert region.length == len(framed([inner + b"tail"]))

    def test_a_cut_record_that_swallows_exactly_the_next(self) -> None:
        first, second, third = framed([b"x" * 60]), framed([b"y" * 5]), framed([b"z"])
        for rest, kept in (((second,), [b"y" * 5]), ((second, third), [b"y" * 5, b"z"])):
            data = first[: -len(second)] + b"".join(rest)
            records, (region,) = recovered(data)
            assert records == kept
            assert region.length == len(first) - len(second)

    def test_a_false_header_that_claims_more_than_there_is(self) -> None:
        header = (1 << 20).to_bytes(8, "little")
        header += tfs.masked_crc32c(header).to_bytes(4, "little")
        check(WHOLE[: STARTS[5]] + header + WHOLE[STARTS[5] :], set())


def test_what_the_format_cannot_tell() -> None:
    """A record's length and its CRC are a record of 8 bytes and its CRC: behind a header that
    claims 8 bytes and lost its data, they check out. No reader of the format can know better."""
    lost, kept = framed([b"8 bytes."]), framed([b"another record"])
    records, (region,) = recovered(lost[:12] + kept)
    assert records == [(14).to_bytes(8, "little")]
    assert region.offset == 24


def test_records_within_the_claimed_extent_of_a_damaged_one() -> None:
    """A record lost its end, a whole one follows, and the file is cut just where the first said
    that it would end. A damaged record whose data holds a frame looks the same. The bytes are
    reported as skipped, for a record that never was one would be worse."""
    cut, whole, last = framed([b"x" * 61]), framed([b"whole"]), framed([b"last"])
    kept = len(cut) - len(whole) - len(last) + 3
    records, (region,) = recovered(cut[:kept] + whole + last[:-3])
    assert records == []
    assert (region.offset, region.length) == (0, len(cut))


@st.composite
def damaged_files(draw: st.DrawFn) -> tuple[list[bytes], bytes, set[int]]:
    """Records (all different), a damaged file of them, and which of them the damage touched."""
    sizes = draw(st.lists(st.integers(0, 300), min_size=1, max_size=40))
    rng = draw(st.randoms(use_true_random=False))
    # not 8 bytes: see test_what_the_format_cannot_tell
    items = [b"%09d" % i + rng.randbytes(n) for i, n in enumerate(sizes)]
    frames = [bytearray(framed([item])) for item in items]
    touched: set[int] = set()
    for _ in range(draw(st.integers(1, 6))):
        i = draw(st.integers(0, len(frames) - 1))
        frame = frames[i]
        if not frame:
            continue
        at = draw(st.integers(0, len(frame) - 1))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "remove", "length"]))
        touched.add(i)
        if kind == "flip":
            frame[at] ^= draw(st.integers(1, 255))
        elif kind == "cut":
            del frame[at:]
        elif kind == "insert":
            frame[at:at] = rng.randbytes(draw(st.integers(1, 30))) + b"!"
        elif kind == "remove":
            del frame[at : at + draw(st.integers(1, 30))]
        else:
            frame[0:8] = draw(st.integers(0, 2**64 - 1)).to_bytes(8, "little")
    # several damages may undo each other
    touched = {i for i in touched if bytes(frames[i]) != framed([items[i]])}
    return items, b"".join(frames), touched


def within_claims(data: bytes) -> set[bytes]:
    """Data of the frames that lie within what a damaged frame says is its own, where the end of the
    file, or a header, stands just where that frame says that it ends. By the format, they may be
    that record's data."""
    found = set()
    headers = {at: length for at in range(len(data)) if (length := claimed(data, at)) is not None}
    for at, length in headers.items():
        end = at + 16 + length
        if end == len(data) or end in headers:
            inside = ((i, n) for i, n in headers.items() if at < i and i + 16 + n <= end)
            found |= {data[i + 12 : i + 12 + n] for i, n in inside}
    return found


def claimed(data: bytes, at: int) -> int | None:
    """The length that a header at ``at`` claims. None if its checksum says that it is none."""
    length, crc = data[at : at + 8], data[at + 8 : at + 12]
    if len(crc) < 4 or tfs.masked_crc32c(length).to_bytes(4, "little") != crc:
        return None
    return int.from_bytes(length, "little")


@settings(max_examples=300, deadline=None)
@given(damaged_files(), st.integers(1, 500))
def test_all_undamaged_records_and_no_others(
    case: tuple[list[bytes], bytes, set[int]], piece: int
) -> None:
    items, data, touched = case
    records, skipped = recovered(data)
    within = within_claims(data)
    undamaged = {item for i, item in enumerate(items) if i not in touched} - within
    # an insertion before or behind a whole frame leaves its record undamaged
    assert undamaged <= set(records) <= set(items)
    assert records == [item for item in items if item in set(records)]
    again, regions = recovered(data, piece)
    assert (again, without_guess(regions)) == (records, without_guess(skipped))
    lost = sum(region.length or 0 for region in skipped)
    assert lost + sum(len(record) + 16 for record in records) == len(data)


class TestReader:
    def test_ten_thousand_records_a_hundred_damages(self, tmp_path: Path) -> None:
        rng = random.Random(3)
        items = [b"%06d:" % i + rng.randbytes(rng.randrange(400)) for i in range(10_000)]
        frames = [bytearray(framed([item])) for item in items]
        touched = set(rng.sample(range(10_000), 100))
        for n, i in enumerate(sorted(touched)):
            frame, at = frames[i], rng.randrange(len(frames[i]))
            if n % 5 == 0:
                frame[at] ^= 0x10
            elif n % 5 == 1:
                del frame[max(at, 1) :]
            elif n % 5 == 2:
                frame[max(at, 1) : max(at, 1)] = rng.randbytes(9)
            elif n % 5 == 3:
                del frame[0 : at + 1]
            else:
                frame[0:8] = rng.randbytes(8)
        (tmp_path / "x").write_bytes(b"".join(frames))
        reader = tfs.RecordReader(tmp_path / "x", on_corrupt="skip")
        assert list(reader) == [item for i, item in enumerate(items) if i not in touched]
        assert 0 < reader.skipped <= 100

    def test_a_function_is_told(self, tmp_path: Path) -> None:
        data = bytearray(WHOLE)
        data[STARTS[5] + 13] ^= 1
        (tmp_path / "x").write_bytes(data)
        told: list[SkippedRegion] = []
        assert len(list(tfs.RecordReader(tmp_path / "x", on_corrupt=told.append))) == 19
        assert [(r.path, r.offset) for r in told] == [(str(tmp_path / "x"), STARTS[5])]

    def test_what_the_function_raises_passes_through(self, tmp_path: Path) -> None:
        def stop(region: SkippedRegion) -> None:
            raise KeyError(region.offset)

        (tmp_path / "x").write_bytes(b"\xff" + WHOLE[1:])
        with pytest.raises(KeyError):
            list(tfs.RecordReader(tmp_path / "x", on_corrupt=stop))

    def test_the_rest_of_a_damaged_stream_is_lost_and_said(self, tmp_path: Path) -> None:
        data = bytearray(gzip.compress(framed([random.Random(1).randbytes(1000)] * 500)))
        data[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
        (tmp_path / "x").write_bytes(data)
        (tmp_path / "y").write_bytes(WHOLE)
        told: list[SkippedRegion] = []
        found = list(tfs.RecordReader([tmp_path / "x", tmp_path / "y"], on_corrupt=told.append))
        assert found[-20:] == ITEMS
        assert told[-1].length is None

    def test_no_such_policy(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="on_corrupt="):
            tfs.RecordReader([], on_corrupt="ignore")


def test_headers_that_reach_to_the_end_are_not_all_looked_at() -> None:
    """The CRC of each would be as much work as the file is long: hours for a few MiB."""
    count, tail = 1 << 17, framed([b"good"] * 3)
    end = HEADER_BYTES * count + 4
    heads = []
    for i in range(count):
        length = struct.pack("<Q", end - HEADER_BYTES * (i + 1) - 4)
        heads.append(length + struct.pack("<I", tfs.masked_crc32c(length)))
    records, skipped = recovered(b"junk" + b"".join(heads) + bytes(4) + tail)
    assert records == [b"good"] * 3
    assert [(one.offset, one.length) for one in skipped] == [(0, 4 + end)]


def test_many_regions_take_little_memory() -> None:
    regions = 100_000
    data = (b"j" + framed([b""])) * regions

    def decode() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), -1))
        records, skipped = recovered(data)
        os._exit(0 if len(records) == len(skipped) == regions else 1)

    child = multiprocessing.get_context("fork").Process(target=decode)
    child.start()
    child.join()
    assert child.exitcode == 0
