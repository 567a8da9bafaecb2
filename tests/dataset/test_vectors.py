"""Golden datasets: this library reads them, writes them again to the byte, and finds all damage.
So does a reader in plain Python that knows nothing but docs/format.md."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest

import tfio_store as tfs
from tests.vectors import plain_reader
from tests.vectors.make_datasets import (
    BY_RECORDS_ALONE,
    DATASETS,
    HERE,
    INDEX,
    LENGTHS,
    ROOT,
    WRITERS,
    Damage,
    damages,
    records,
    write,
)
from tfio_store.errors import ReplacedError

COMMITTED = [name for name in (*WRITERS, *DATASETS) if name != "episodes"]

each = pytest.mark.parametrize("name", COMMITTED)


@pytest.fixture(autouse=True)
def _codecs(request: pytest.FixtureRequest) -> None:
    if "zstd" in request.node.name:
        pytest.importorskip("zstandard")


def test_each_is_tested() -> None:
    there = {path.name for path in HERE.iterdir()} - {"damage.json"}
    assert there == {*WRITERS, *DATASETS}


@each
def test_a_golden_dataset_is_read(name: str) -> None:
    url = str(HERE / name / "train")
    assert list(tfs.RecordReader(url)) == records()
    source = tfs.RecordSource(url)
    assert [source[i] for i in range(len(source))] == records()
    assert source[[59, 0, 31, 31]] == [records()[i] for i in (59, 0, 31, 31)]
    assert tfs.verify(url).ok


def test_golden_episodes_are_read(tmp_path: Path) -> None:
    shutil.copytree(HERE / "episodes", tmp_path, dirs_exist_ok=True)
    url = tmp_path / "arm" / "1.0.0" / "train"
    assert sorted(tfs.Episodes(url).lengths.tolist()) == sorted(LENGTHS)


@pytest.mark.parametrize("name", BY_RECORDS_ALONE)
def test_a_golden_dataset_is_written_again(name: str, tmp_path: Path) -> None:
    write(name, tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    golden = {path.name: path.read_bytes() for path in (HERE / name).iterdir()}
    for files in (written, golden):  # the generation is random
        body, _, crc = files[ROOT].rpartition(b",")
        assert json.loads(b"{" + crc) == {"crc32c": f"{google_crc32c.value(body):08x}"}
        files[ROOT] = re.sub(rb'"generation": "[0-9a-f]*"', b"", body)
    assert written == golden


# The reader in plain Python


PLAIN = Path(plain_reader.__file__)


def test_the_plain_reader_is_short_and_on_its_own() -> None:
    text = PLAIN.read_text()
    assert len(text.splitlines()) <= 200
    assert not re.search(r"^\s*(import|from) (tfio_store|tests|numpy|google)", text, re.MULTILINE)


@each
def test_the_plain_reader_reads_it(name: str) -> None:
    assert list(plain_reader.read(HERE / name / "train")) == records()


def test_the_plain_reader_is_a_program() -> None:
    command = [sys.executable, "-I", str(PLAIN), str(HERE / "raw" / "train")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    crc = google_crc32c.value(b"".join(records()))
    assert found == f"60 records, {crc:08x}\n"


def test_the_plain_reader_reads_what_is_written_now(tmp_path: Path) -> None:
    for name in COMMITTED:
        (tmp_path / name).mkdir()
        write(name, tmp_path / name)
        assert list(plain_reader.read(tmp_path / name / "train")) == records()


def test_the_plain_reader_passes_by_what_a_dataset_grew(tmp_path: Path) -> None:
    for column in "xyz":
        tfs.write_table({column: [1, 2]}, tmp_path / "train", if_exists="append")
    assert len(plain_reader.root_of(tmp_path, "train")["growth"]) == 2
    found = list(plain_reader.read(tmp_path / "train"))
    assert found == list(tfs.RecordReader(tmp_path / "train"))
    assert len(found) == 6


def test_the_plain_reader_passes_by_how_many_values_there_are(tmp_path: Path) -> None:
    schema = {"tokens": tfs.Feature("int64", (None,))}
    with tfs.ShardedWriter(tmp_path / "train", num_shards=2, schema=schema) as writer:
        writer.write_batch([{"tokens": [1] * size} for size in range(5)])
    assert plain_reader.root_of(tmp_path, "train")["values"] == {"tokens": 10}
    assert list(plain_reader.read(tmp_path / "train")) == list(tfs.RecordReader(tmp_path / "train"))


def sections(path: Path) -> list[tuple[bytes, bytes]]:
    """The kind and the payload of each section of a container."""
    data, at, found = path.read_bytes(), 16, []
    while at < len(data):
        kind, length = struct.unpack_from("<8sQ", data, at)
        nbytes, kind = (16 + length + 4 + 7) // 8 * 8, kind.rstrip(b"\0")
        place = [path.name, len(data)]
        found.append((kind, plain_reader.section(path.parent, place, at, nbytes, kind)[:-4]))
        at += nbytes
    return found


def test_an_index_of_steps_is_as_the_document_says() -> None:
    (path,) = HERE.glob("episodes/*/*/_train.steps")
    (kind, described), *steps = sections(path)
    assert (kind, {kind for kind, _ in steps}) == (b"shards", {b"steps"})
    lengths: list[int] = []
    for told, (_, payload) in zip(json.loads(described), steps, strict=True):
        n, data = told["records"], (path.parent / told["name"]).read_bytes()
        starts = struct.unpack_from(f"<{n}q", payload)
        assert [begin for begin, _, _ in plain_reader.frames(data)] == list(starts)
        lengths += struct.unpack(f"<{n}I", payload[8 * n :])
    assert sorted(lengths) == sorted(LENGTHS)


def test_an_index_of_checkpoints_is_as_the_document_says() -> None:
    path = HERE / "streams" / "_part-0.gz.checkpoints"
    (one, blocks), (two, seeds) = sections(path)
    assert (one, two) == (b"blocks", b"seeds")
    nbytes, count, k, _, codec, etag = struct.unpack_from("<QQQQII", blocks)
    assert (nbytes, count, codec) == ((HERE / "streams" / "part-0.gz").stat().st_size, 30, 1)
    assert len(blocks) == 40 + 8 * (2 * k + 3 * (k + 1)) + 8 * k + etag
    assert struct.unpack_from("<q", blocks, 40 + 8 * (5 * k + 2))[0] == len(seeds)


# Damage


DAMAGES = [Damage(**each) for each in json.loads((HERE / "damage.json").read_text())]

ERRORS: dict[str, type[Exception]] = {
    "ManifestError": tfs.ManifestError,
    "CorruptRecordError": tfs.CorruptRecordError,
    "TruncatedRecordError": tfs.TruncatedRecordError,
    "ReplacedError": ReplacedError,
    "FileNotFoundError": FileNotFoundError,
}

DOORS: dict[str, Callable[[str], object]] = {
    "reader": lambda url: list(tfs.RecordReader(url)),
    "shuffled": lambda url: list(tfs.RecordReader(url).shuffle(1)),
    "source": lambda url: tfs.RecordSource(url)[:],
    "partitions": lambda url: [list(part.reader()) for part in tfs.partitions(url)],
}


def test_the_damage_is_what_the_script_makes() -> None:
    assert [json.loads(json.dumps(one._asdict())) for one in damages()] == [
        one._asdict() for one in DAMAGES
    ]


def damaged(damage: Damage, folder: Path) -> str:
    shutil.copytree(HERE / damage.of, folder, dirs_exist_ok=True)
    for file, start, stop, data in damage.changes:
        path = folder / file
        if data is None:
            path.unlink()
            continue
        old = path.read_bytes()
        path.write_bytes(old[:start] + bytes.fromhex(data) + (b"" if stop is None else old[stop:]))
    return str(folder / "train")


by_name = pytest.mark.parametrize(
    "damage", DAMAGES, ids=[f"{one.of}-{one.kind}".replace(" ", "-") for one in DAMAGES]
)


@by_name
def test_damage_gives_its_error_in_every_door(damage: Damage, tmp_path: Path) -> None:
    url = damaged(damage, tmp_path)
    for door, read in DOORS.items():
        with pytest.raises(ERRORS[damage.error], match=damage.says):
            pytest.fail(f"{door} gave {read(url)!r}")


@by_name
def test_the_plain_reader_finds_it_too(damage: Damage, tmp_path: Path) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever Python says of it
        list(plain_reader.read(damaged(damage, tmp_path)))


def test_no_byte_of_an_index_or_a_root_is_free(tmp_path: Path) -> None:
    shutil.copytree(HERE / "raw-starts", tmp_path, dirs_exist_ok=True)
    for name in (INDEX, ROOT):
        sound = (tmp_path / name).read_bytes()
        for at in range(0, len(sound), 1 if len(sound) < 2000 else 3):
            (tmp_path / name).write_bytes(sound[:at] + bytes([sound[at] ^ 16]) + sound[at + 1 :])
            with pytest.raises(tfs.ManifestError):
                list(tfs.RecordReader(str(tmp_path / "train")))
        (tmp_path / name).write_bytes(sound)
