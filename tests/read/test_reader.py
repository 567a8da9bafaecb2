"""`RecordReader` on files that TensorFlow wrote, and on damage, place by place."""

from __future__ import annotations

import gzip
import io
import pickle
import zlib
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tests.vectors.make_vectors import COMPRESSIONS, NAMES, golden, records


def reader(place: Place, *names: str, **options: object) -> tfs.RecordReader:
    urls = [place.url(name) for name in names]
    return tfs.RecordReader(urls, storage_options=place.storage_options, **options)  # type: ignore[arg-type]


THREE = [b"first", b"", b"third record"]


class TestGoldenFiles:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("suffix", COMPRESSIONS)
    def test_by_magic_bytes(self, name: str, suffix: str) -> None:
        assert list(tfs.RecordReader(golden(name, suffix))) == records(name)

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("suffix", COMPRESSIONS)
    def test_by_declared_compression(self, name: str, suffix: str) -> None:
        found = tfs.RecordReader(golden(name, suffix), compression=COMPRESSIONS[suffix])
        assert list(found) == records(name)

    def test_compression_is_never_taken_from_the_name(self, tmp_path: Path) -> None:
        (tmp_path / "x.gz").write_bytes(golden("many").read_bytes())
        (tmp_path / "y.gz").write_bytes(golden("many", "zz").read_bytes())
        (tmp_path / "z.tfrecord").write_bytes(golden("many", "gz").read_bytes())
        assert list(tfs.RecordReader(str(tmp_path / "*"))) == records("many") * 3

    def test_wrongly_declared_compression_is_an_error(self) -> None:
        with pytest.raises(tfs.CorruptRecordError, match=r"many\.tfrecord"):
            list(tfs.RecordReader(golden("many"), compression="GZIP"))
        with pytest.raises(tfs.CorruptRecordError):
            list(tfs.RecordReader(golden("many", "gz"), compression=None))


class TestSources:
    def test_no_records(self, place: Place) -> None:
        place.put("empty", b"")
        place.put("one", framed([b"1"]))
        assert list(reader(place, "empty")) == []
        assert list(reader(place, "empty", "one", "empty")) == [b"1"]
        assert list(tfs.RecordReader([])) == []

    def test_folder(self, place: Place) -> None:
        place.put("folder/file", b"")
        with pytest.raises(OSError, match="folder"):
            list(reader(place, "folder"))

    def test_missing_bucket(self, s3: Place) -> None:
        with pytest.raises(FileNotFoundError, match="no-such-bucket"):
            list(tfs.RecordReader("s3://no-such-bucket/x", storage_options=s3.storage_options))

    @pytest.mark.parametrize("wrong", [None, 3, b"bytes", [3], [b"x"]])
    def test_not_a_source(self, wrong: object) -> None:
        with pytest.raises(TypeError, match="source="):
            tfs.RecordReader(wrong)  # type: ignore[arg-type]

    def test_unknown_compression(self) -> None:
        with pytest.raises(ValueError, match="SNAPPY"):
            tfs.RecordReader(golden("one"), compression="SNAPPY")


class Trickle(io.RawIOBase):
    """A pipe: not seekable, and it gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._left = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._left.readinto(memoryview(buffer)[:7])


class TestFileObjects:
    @pytest.mark.parametrize("suffix", COMPRESSIONS)
    def test_open_file(self, suffix: str) -> None:
        with golden("many", suffix).open("rb") as file:
            assert list(tfs.RecordReader(file)) == records("many")
            assert not file.closed

    @pytest.mark.parametrize("suffix", COMPRESSIONS)
    def test_not_seekable(self, suffix: str) -> None:
        data = golden("sizes", suffix).read_bytes()
        assert list(tfs.RecordReader(Trickle(data))) == records("sizes")  # type: ignore[arg-type]

    def test_read_from_where_it_stands(self) -> None:
        file = io.BytesIO(b"junk" + framed(THREE))
        file.seek(4)
        found = tfs.RecordReader(file)
        each = iter(found)
        next(each)
        state = found.state()
        assert list(each) == THREE[1:]
        found.restore(state)
        assert list(found) == THREE[1:]

    def test_only_read(self) -> None:
        class OnlyRead:
            def __init__(self, data: bytes) -> None:
                self.read = io.BytesIO(data).read

        assert list(tfs.RecordReader(OnlyRead(framed(THREE)))) == THREE  # type: ignore[arg-type]

    def test_text_mode(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"x" * 100)
        with (tmp_path / "x").open() as file, pytest.raises(TypeError, match="rb"):
            list(tfs.RecordReader(file))

    def test_fsspec_file(self, place: Place) -> None:
        place.put("x", golden("many").read_bytes())
        with place.fs.open(place.url("x"), "rb") as file:
            assert list(tfs.RecordReader(file)) == records("many")

    def test_no_blocks_of_a_file_object(self) -> None:
        with pytest.raises(ValueError, match="file object"):
            tfs.RecordReader(io.BytesIO()).shuffle(1)

    def test_does_not_pickle(self) -> None:
        with pytest.raises(TypeError, match="path"):
            pickle.dumps(tfs.RecordReader(io.BytesIO()))


class TestDamage:
    def test_every_flipped_byte_is_detected(self, tmp_path: Path) -> None:
        whole, path = framed(THREE), tmp_path / "damaged"
        starts = [0, 16 + 5, 16 + 5 + 16]
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            got: list[bytes] = []
            with pytest.raises(tfs.DataLossError) as caught:
                got.extend(tfs.RecordReader(path, compression=None))
            assert caught.value.path == str(path)
            assert caught.value.offset == max(start for start in starts if start <= at)
            assert str(path) in str(caught.value)

    def test_every_cut(self, tmp_path: Path) -> None:
        whole, path = framed(THREE), tmp_path / "cut"
        ends = {0: 0, 21: 1, 37: 2, len(whole): 3}
        for size in range(len(whole) + 1):
            path.write_bytes(whole[:size])
            if size in ends:
                assert list(tfs.RecordReader(path)) == THREE[: ends[size]]
                continue
            got: list[bytes] = []
            with pytest.raises(tfs.TruncatedRecordError, match="cut"):
                got.extend(tfs.RecordReader(path))
            assert got == THREE[: len(got)]

    def test_unverified_reading_still_checks_lengths(self, tmp_path: Path) -> None:
        whole, path = bytearray(framed(THREE)), tmp_path / "x"
        whole[12] ^= 1
        path.write_bytes(whole)
        assert next(iter(tfs.RecordReader(path, verify=False))) == b"girst"
        whole[0] ^= 1
        path.write_bytes(whole)
        with pytest.raises(tfs.CorruptRecordError):
            next(iter(tfs.RecordReader(path, verify=False, compression=None)))

    @pytest.mark.parametrize("suffix", ["gz", "zz"])
    def test_a_cut_stream(self, tmp_path: Path, suffix: str) -> None:
        data, path = golden("many", suffix).read_bytes(), tmp_path / "cut"
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(tfs.TruncatedRecordError, match="cut"):
            list(tfs.RecordReader(path))

    def test_a_bomb_is_read_in_pieces(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb"
        path.write_bytes(gzip.compress(bytes(100 << 20)))
        with pytest.raises(tfs.CorruptRecordError):
            list(tfs.RecordReader(path))

    def test_a_record_over_the_limit_in_a_stream(self, tmp_path: Path) -> None:
        path = tmp_path / "large"
        path.write_bytes(zlib.compress(framed([bytes(2 << 20)])))
        with pytest.raises(tfs.errors.RecordTooLargeError):
            list(tfs.RecordReader(path, max_record_bytes=1 << 20))
