"""Small datasets of many kinds: clean ones, and ones that have something odd. Each function writes
one into a folder, and returns what to open."""

from __future__ import annotations

import gzip
import io
import os
import struct
import wave
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.indexes import changed_root

Rng = np.random.Generator


def rng(seed: int = 0) -> Rng:
    return np.random.default_rng(seed)


def record_at(shard: Any, offset: int) -> bytes:
    """The record whose frame lies at an offset of a local shard's uncompressed stream."""
    data = _stream(shard.url)
    (length,) = struct.unpack_from("<Q", data, offset)
    return data[offset + 12 : offset + 12 + length]


@lru_cache(maxsize=4)
def _stream(path: str) -> bytes:
    data = Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


# ---- values


def png(width: int = 48, height: int = 32, *, seed: int = 0, mode: str = "RGB") -> bytes:
    """A picture of coloured rectangles."""
    image, chance = _pillow(), rng(seed)
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:] = chance.integers(0, 256, 3)
    for _ in range(4):
        x, y = int(chance.integers(width)), int(chance.integers(height))
        pixels[y : y + height // 2, x : x + width // 2] = chance.integers(0, 256, 3)
    file = io.BytesIO()
    image.fromarray(pixels).convert(mode).save(file, "PNG")
    return file.getvalue()


def jpeg(width: int = 64, height: int = 48, *, seed: int = 0) -> bytes:
    image, file = _pillow(), io.BytesIO()
    image.open(io.BytesIO(png(width, height, seed=seed))).save(file, "JPEG", quality=80)
    return file.getvalue()


def scans(count: int) -> bytes:
    """A JPEG file of many scans, each of which takes as long as the image has pixels."""
    data = jpeg()
    return data[:-2] + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" * count + data[-2:]


def bomb(width: int, height: int) -> bytes:
    """A sound PNG file of very many pixels, of one bit each, in few bytes."""
    lines = zlib.compressobj(9)
    line = bytes(1 + -(-width // 8))
    body = b"".join(lines.compress(line) for _ in range(height)) + lines.flush()

    def chunk(name: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(name + data)
        return len(data).to_bytes(4, "big") + name + data + crc.to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\1\0\0\0\0"
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _pillow() -> Any:
    return pytest.importorskip("PIL.Image")


def wav(seconds: float = 0.1, *, pitch: float = 440.0) -> bytes:
    """A tone of 8,000 samples a second."""
    count = int(8000 * seconds)
    tone = 12000 * np.sin(2 * np.pi * pitch * np.arange(count) / 8000)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(tone.astype("<i2").tobytes())
    return file.getvalue()


WORDS = [
    *("the", "a", "of", "to", "and", "in", "model", "data", "train", "loss", "step", "night"),
    *("river", "stone", "light", "tree", "house", "small", "large", "quick", "slow", "red"),
    *("blue", "paper", "word", "line", "page", "café", "naïve", "東京", "Straße", "мир", "🙂"),
]


def sentence(chance: Rng, words: int) -> str:
    return " ".join([WORDS[i] for i in chance.integers(0, len(WORDS), words).tolist()])


# ---- whole datasets without anything odd


def images(folder: Path, *, count: int = 200, shards: int = 4) -> str:
    """JPEGs with a label."""
    chance = rng(1)
    schema = tfs.Schema(
        {
            "image": tfs.Feature.image("jpeg"),
            "label": tfs.Feature.class_label(["cat", "dog", "bird", "fish"]),
        }
    )
    columns = {
        "image": [jpeg(seed=i) for i in range(count)],
        "label": chance.integers(0, 4, count),
    }
    return _table(folder / "images", columns, shards, schema=schema)


def mnist(folder: Path, *, count: int = 2000, shards: int = 4) -> str:
    """28x28 grey pixels as raw bytes beside their height, width and depth, as many converters
    write them."""
    chance = rng(2)
    digits = chance.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    digits[:, :4] = digits[:, -4:] = 0
    columns = {
        "image_raw": [digit.tobytes() for digit in digits],
        "height": np.full(count, 28),
        "width": np.full(count, 28),
        "depth": np.full(count, 1),
        "label": chance.integers(0, 10, count),
    }
    return _table(folder / "mnist", columns, shards)


def texts(folder: Path, *, count: int = 2000, shards: int = 3) -> str:
    """Texts whose lengths are those of texts: many short ones, few long ones; and tokens."""
    chance = rng(3)
    lengths = np.clip((chance.pareto(1.5, count) + 1) * 6, 3, 900).astype(int)
    columns = {
        "text": [sentence(chance, int(n)) for n in lengths],
        "tokens": (chance.integers(5, 30_000, int(lengths.sum())), np.append(0, lengths.cumsum())),
        "source": chance.choice(["web", "books", "wiki"], count, p=[0.6, 0.3, 0.1]).tolist(),
    }
    return _table(folder / "texts", columns, shards)


def scalars(folder: Path, *, count: int = 5000, shards: int = 2) -> str:
    """What a table of measurements looks like."""
    chance = rng(4)
    columns = {
        "age": chance.integers(18, 91, count),
        "income": np.exp(chance.normal(10, 1, count)),
        "score": chance.random(count),
        "clicked": chance.random(count) < 0.3,
        "embedding": chance.normal(size=(count, 16)).astype(np.float32),
        "user": [f"user-{i:06d}" for i in chance.integers(0, 10**6, count)],
    }
    return _table(folder / "scalars", columns, shards)


def audio(folder: Path, *, count: int = 40) -> str:
    chance = rng(5)
    columns = {
        "audio": [wav(pitch=float(p)) for p in chance.integers(200, 2000, count)],
        "speaker": chance.integers(0, 4, count),
    }
    return _table(folder / "audio", columns, 2)


def few(folder: Path) -> str:
    """Three records."""
    return _table(folder / "few", {"x": [1, 2, 3], "name": ["ada", "bob", "cleo"]}, 1)


def times(folder: Path, *, count: int = 500) -> str:
    chance = rng(6)
    start = np.datetime64("2024-01-01T00:00:00", "s")
    columns = {
        "when": start + chance.integers(0, 10**7, count).astype("timedelta64[s]"),
        "value": chance.normal(size=count),
    }
    return _table(folder / "times", columns, 2)


def sequences(folder: Path, *, count: int = 300) -> str:
    """SequenceExamples: a context and lists of steps."""
    chance = rng(7)
    records = []
    for i in range(count):
        steps = int(chance.integers(3, 30))
        context = {"id": i, "label": int(chance.integers(0, 5))}
        lists: dict[str, Any] = {
            "frames": [chance.normal(size=4).astype(np.float32) for _ in range(steps)],
            "words": [[str(w)] for w in chance.choice(WORDS, steps)],
        }
        records.append(tfs.encode_sequence_example(context, lists))
    return raw(folder / "sequences.tfrecord", records)


def plain_files(folder: Path, *, count: int = 1200, shards: int = 3) -> str:
    """Raw files without an index, as TensorFlow writes them; a glob."""
    return _files(folder, "plain-{}.tfrecord", rng(8), count, shards)


def compressed_files(folder: Path, *, count: int = 1200, shards: int = 3) -> str:
    """Compressed streams without blocks; a glob."""
    return _files(folder, "gz-{}.tfrecord.gz", rng(9), count, shards, compression="GZIP")


def _files(folder: Path, name: str, chance: Rng, count: int, shards: int, **how: Any) -> str:
    for shard in range(shards):
        records = [
            tfs.encode_example({"x": float(chance.normal()), "label": int(chance.integers(0, 3))})
            for _ in range(count // shards)
        ]
        raw(folder / name.format(shard), records, **how)
    return str(folder / name.format("*"))


def counts(folder: Path, *, count: int = 20_000) -> str:
    """Numbers of things: small ones are frequent, large ones rare; and flags that few have."""
    chance = rng(25)
    children, clicks = chance.poisson(2, count).tolist(), chance.geometric(0.4, count).tolist()
    records = []
    for i in range(count):
        features = {"children": children[i], "clicks": clicks[i] - 1, "id": i}
        if i % 7 == 0:
            features["is_new"] = 1
        records.append(tfs.encode_example(features))
    return raw(folder / "counts.tfrecord", records)


CLEAN: tuple[Callable[[Path], str], ...] = (
    images,
    mnist,
    texts,
    scalars,
    audio,
    few,
    times,
    sequences,
    plain_files,
    compressed_files,
    counts,
)
"""Nothing in these deserves a warning."""


# ---- datasets that have something odd


def uneven_shards(folder: Path) -> str:
    """Of 12 shards one is twenty times the others, and one has next to nothing."""
    chance = rng(10)
    for shard in range(12):
        count = {4: 4000, 7: 5}.get(shard, 200)
        records = [
            tfs.encode_example({"x": chance.normal(size=16).astype(np.float32)})
            for _ in range(count)
        ]
        raw(folder / f"uneven-{shard:02d}.tfrecord", records)
    return str(folder / "uneven-*.tfrecord")


def empty_shards(folder: Path) -> str:
    for shard in range(5):
        records = [] if shard in (1, 3) else [tfs.encode_example({"x": i}) for i in range(50)]
        raw(folder / f"part-{shard}.tfrecord", records)
    return str(folder / "part-*.tfrecord")


def rare_class(folder: Path, *, count: int = 20_000) -> str:
    """Label 7 is in 6 of 20,000 records."""
    chance = rng(11)
    labels = chance.integers(0, 7, count)
    labels[chance.choice(count, 6, replace=False)] = 7
    return _table(folder / "rare", {"label": labels, "x": chance.random(count)}, 2)


def one_class(folder: Path, *, count: int = 5000) -> str:
    """98 of 100 labels are 0."""
    chance = rng(12)
    labels = (chance.random(count) < 0.02).astype(np.int64)
    return _table(folder / "one", {"label": labels, "x": chance.random(count)}, 2)


def sorted_labels(folder: Path, *, count: int = 5000) -> str:
    """The labels rise along the dataset, as folders of classes are written."""
    chance = rng(13)
    labels = np.sort(chance.integers(0, 10, count))
    return _table(folder / "sorted", {"label": labels, "x": chance.random(count)}, 5)


def cut_tokens(folder: Path, *, count: int = 3000) -> str:
    """Tokens of texts, cut at 128."""
    chance = rng(14)
    lengths = np.minimum(np.exp(chance.normal(4.6, 0.6, count)).astype(int) + 3, 128)
    splits = np.append(0, np.cumsum(lengths))
    tokens = chance.integers(5, 30_000, int(splits[-1]))
    return _table(folder / "cut", {"tokens": (tokens, splits)}, 2)


def cut_texts(folder: Path, *, count: int = 3000) -> str:
    """Texts cut at 100 bytes."""
    chance = rng(15)
    found = [
        "".join(["abcdefgh "[i] for i in chance.integers(0, 9, max(20, int(n)))])[:100]
        for n in np.exp(chance.normal(4.6, 0.6, count))
    ]
    return _table(folder / "cuttexts", {"text": found}, 2)


def cut_letters(folder: Path, *, count: int = 3000) -> str:
    """Texts cut at 60 characters, of which some take two bytes."""
    chance = rng(26)
    words = ["schön", "für", "Straße", "und", "der", "über", "ein", "Haus"]
    found = [
        " ".join([words[i] for i in chance.integers(0, 8, max(3, int(n)))])[:60]
        for n in np.exp(chance.normal(2.2, 0.6, count))
    ]
    return _table(folder / "letters", {"text": found}, 2)


def padded_tokens(folder: Path, *, count: int = 2000) -> str:
    """Every list is 64 long, and zeros fill it up."""
    chance = rng(16)
    tokens = np.zeros((count, 64), np.int64)
    for row in tokens:
        used = int(chance.integers(5, 40))
        row[:used] = chance.integers(5, 30_000, used)
    return _table(folder / "padded", {"tokens": tokens}, 2)


def constant(folder: Path, *, count: int = 1000) -> str:
    chance = rng(17)
    columns = {"version": np.full(count, 3), "split": ["train"] * count, "x": chance.random(count)}
    return _table(folder / "constant", columns, 2)


def missing_feature(folder: Path, *, count: int = 1000) -> str:
    """A quarter of the records have no caption."""
    chance = rng(18)
    records = []
    for i in range(count):
        features: dict[str, Any] = {"x": float(chance.normal())}
        if i % 4:
            features["caption"] = sentence(chance, 5)
        records.append(tfs.encode_example(features))
    return raw(folder / "missing.tfrecord", records)


def blank_images(folder: Path, *, count: int = 120) -> str:
    """A quarter of the images are black."""
    blank = _solid(48, 32)
    found = [blank if i % 4 == 0 else png(seed=i) for i in range(count)]
    return _table(folder / "blank", {"image": found, "label": np.arange(count) % 3}, 2)


def same_images(folder: Path, *, count: int = 200) -> str:
    """A tenth of the images are one and the same."""
    found = [png(seed=0 if i % 10 == 0 else i) for i in range(count)]
    return _table(folder / "same", {"image": found, "label": np.arange(count) % 3}, 2)


def broken_images(folder: Path, *, count: int = 100) -> str:
    """Every tenth JPEG is cut in its middle."""
    found = [jpeg(seed=i) for i in range(count)]
    found = [data[: len(data) // 2] if i % 10 == 3 else data for i, data in enumerate(found)]
    return _table(folder / "broken", {"image": found, "label": np.arange(count) % 3}, 2)


def mixed_images(folder: Path, *, count: int = 120) -> str:
    """Most are RGB; some are grey or have alpha."""
    modes = ["RGB"] * 8 + ["L", "RGBA"]
    found = [png(seed=i, mode=modes[i % 10]) for i in range(count)]
    return _table(folder / "mixed", {"image": found, "label": np.arange(count) % 3}, 2)


def mixed_sizes(folder: Path, *, count: int = 100) -> str:
    """The last five are larger."""
    found = [png(seed=i) if i < count - 5 else png(64, 64, seed=i) for i in range(count)]
    return _table(folder / "sizes", {"image": found}, 2)


def wrong_index(folder: Path) -> str:
    """One shard was written again, as long as it was, with half as many records."""
    chance = rng()
    path = folder / "stale"
    with tfs.ShardedWriter(str(path), num_shards=2) as writer:
        writer.write_batch([chance.bytes(84) for _ in range(200)])
    shard = folder / "stale-00000-of-00002.tfrecord"
    raw(shard, [chance.bytes(184) for _ in range(shard.stat().st_size // 200)])
    return str(path)


def one_large_file(folder: Path, compression: str) -> str:
    """Larger than a small sample, and no index tells of its records."""
    chance = rng()
    rows = [{"x": chance.normal(size=2000).astype(np.float32)} for _ in range(1500)]
    return raw(
        folder / "large.tfrecord", list(map(tfs.encode_example, rows)), compression=compression
    )


def same_records(folder: Path, *, count: int = 1000) -> str:
    """A tenth of the records are there twice or more."""
    chance = rng(19)
    found = [tfs.encode_example({"x": chance.normal(size=30), "y": i}) for i in range(count)]
    for i in range(0, count, 10):
        found[i] = found[5]
    return raw(folder / "twice.tfrecord", found)


def not_numbers(folder: Path, *, count: int = 1000) -> str:
    chance = rng(20)
    values = chance.normal(size=count).astype(np.float32)
    values[::50], values[7] = np.nan, np.inf
    return _table(folder / "nan", {"x": values, "label": chance.integers(0, 3, count)}, 2)


def bad_texts(folder: Path, *, count: int = 400) -> str:
    """Texts that are Latin-1 and not UTF-8, that lost letters, that were decoded twice, or that
    are empty."""
    chance = rng(21)
    found: list[bytes] = []
    for i in range(count):
        text = sentence(chance, 8)
        data = text.encode()
        if i % 20 == 1:
            data = "café in Zürich, naïve".encode("latin-1")
        elif i % 20 == 2:
            data = ("lost \N{REPLACEMENT CHARACTER} letters " + text).encode()
        elif i % 20 == 3:
            data = "café über Straße".encode().decode("latin-1").encode()
        elif i % 20 < 6:
            data = b""
        found.append(data)
    return _table(folder / "badtexts", {"text": found}, 2)


def damaged(folder: Path, *, count: int = 2000) -> str:
    """Bytes were changed in the middle of two of three shards. It has an index."""
    source = scalars(folder, count=count, shards=3)
    for shard, at in ((0, 0.5), (2, 0.25)):
        path = sorted(folder.glob("scalars-*"))[shard]
        _break(path, int(path.stat().st_size * at))
    return source


def damaged_file(folder: Path, *, count: int = 2000) -> str:
    """A raw file without an index, in the middle of which bytes were changed."""
    chance = rng(22)
    records = [tfs.encode_example({"x": chance.normal(size=8)}) for _ in range(count)]
    path = folder / "damaged.tfrecord"
    raw(path, records)
    _break(path, path.stat().st_size // 2)
    return str(path)


def cut_file(folder: Path, *, count: int = 200) -> str:
    """The last record is not whole."""
    path = folder / "cutfile.tfrecord"
    raw(path, [tfs.encode_example({"x": i}) for i in range(count)])
    os.truncate(path, path.stat().st_size - 5)
    return str(path)


def missing_shard(folder: Path) -> str:
    """A manifest names six shards, and two are gone."""
    source = scalars(folder, count=3000, shards=6)
    files = sorted(folder.glob("scalars-*"))
    for shard in (1, 4):
        files[shard].unlink()
    return source


def shortened_shard(folder: Path) -> str:
    """Of one shard the second half is gone, and the manifest knows how long it was."""
    source = scalars(folder, count=3000, shards=3)
    path = sorted(folder.glob("scalars-*"))[1]
    os.truncate(path, path.stat().st_size // 2)
    return source


def _streams(folder: Path) -> list[Path]:
    """Three compressed files without an index."""
    compressed_files(folder)
    return sorted(folder.glob("gz-*"))


def cut_stream(folder: Path) -> str:
    """The end of a compressed file is gone."""
    path = _streams(folder)[1]
    os.truncate(path, path.stat().st_size // 2)
    return str(folder / "gz-*.tfrecord.gz")


def broken_stream(folder: Path) -> str:
    """The checksum at the end of a compressed file is wrong."""
    path = _streams(folder)[1]
    _break(path, path.stat().st_size - 6)
    return str(folder / "gz-*.tfrecord.gz")


def error_page(folder: Path) -> str:
    """One of three shards is what a server said instead."""
    for shard in (0, 2):
        raw(folder / f"page-{shard}.tfrecord", [tfs.encode_example({"x": i}) for i in range(100)])
    (folder / "page-1.tfrecord").write_bytes(b"<!doctype html><h1>403 Forbidden</h1>" * 40)
    return str(folder / "page-*.tfrecord")


def noise(folder: Path) -> str:
    path = folder / "noise.tfrecord"
    path.write_bytes(rng(27).bytes(100_000))
    return str(path)


def image_bomb(folder: Path, *, count: int = 100) -> str:
    """The first image says that it has 3.6 billion pixels, and another one that has 64 million is
    cut."""
    found = [png(seed=i) for i in range(count)]
    found[0] = found[0][:16] + (60_000).to_bytes(4, "big") * 2 + found[0][24:]
    found[1] = found[1][:16] + (8_000).to_bytes(4, "big") * 2 + found[1][24:60]
    for i in (0, 1):
        header = found[i][12:29]
        found[i] = found[i][:29] + zlib.crc32(header).to_bytes(4, "big") + found[i][33:]
    return _table(folder / "bomb", {"image": found, "label": np.arange(count) % 3}, 1)


def huge_record(folder: Path, *, count: int = 500) -> str:
    chance = rng(23)
    sizes = [200_000 if i == 250 else int(chance.integers(200, 400)) for i in range(count)]
    records = [
        tfs.encode_example({"x": chance.bytes(size), "id": i}) for i, size in enumerate(sizes)
    ]
    return raw(folder / "huge.tfrecord", records)


def wrong_schema(folder: Path, *, count: int = 100) -> str:
    """The manifest's schema has three numbers, and records have four; one has text instead."""
    schema = tfs.Schema({"x": ("float32", (3,)), "y": "int64"})
    chance = rng(24)
    with tfs.ShardedWriter(str(folder / "wrong"), num_shards=1) as writer:
        for i in range(count):
            y: Any = "text" if i % 10 == 0 else i
            writer.write(tfs.encode_example({"x": chance.normal(size=4), "y": y}))
    manifest = folder / "_wrong.manifest.json"
    _set_schema(manifest, schema)
    return str(folder / "wrong")


def two_dtypes(folder: Path, *, count: int = 200) -> str:
    """``x`` is a float in some records, and an integer in others."""
    records = [tfs.encode_example({"x": i if i % 5 == 0 else i / 7}) for i in range(count)]
    return raw(folder / "two.tfrecord", records)


def no_examples(folder: Path, *, count: int = 50) -> str:
    """Records that are PNG files themselves."""
    return raw(folder / "pngs.tfrecord", [png(seed=i) for i in range(count)])


def some_no_examples(folder: Path, *, count: int = 100) -> str:
    found = [tfs.encode_example({"x": i}) for i in range(count)]
    found[10] = found[20] = b"this is no Example, surely"
    return raw(folder / "some.tfrecord", found)


def hostile_names(folder: Path, *, count: int = 40) -> str:
    """Names and texts that a page must not take for its own."""
    script = "<img src=x onerror=alert(1)>"
    columns = {
        script: np.arange(count),
        "</script><script>alert(2)</script>": [script] * count,
        "bidi \u202e name": ["right \u202eto left\u202c \x1b[31mred\x00"] * count,
        "javascript:alert(3)": [chr(0x1F600 + i) for i in range(count)],
    }
    return _table(folder / "hostile", columns, 1)


def many_features(folder: Path, *, features: int = 5000, count: int = 4) -> str:
    records = [
        tfs.encode_example({f"feature-{i:05d}": i * n for i in range(features)})
        for n in range(count)
    ]
    return raw(folder / "many.tfrecord", records)


def no_records(folder: Path) -> str:
    return raw(folder / "none.tfrecord", [])


# ---- how they are written


def raw(path: Path, records: Sequence[bytes], *, compression: str = "") -> str:
    """A file without an index."""
    with tfs.TFRecordWriter(str(path), compression) as writer:
        writer.write_batch(list(records))
    return str(path)


def _table(path: Path, columns: dict[str, Any], shards: int, **options: Any) -> str:
    tfs.write_table(columns, str(path), num_shards=shards, **options)
    return str(path)


def _solid(width: int, height: int) -> bytes:
    image, file = _pillow(), io.BytesIO()
    image.fromarray(np.zeros((height, width, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def _break(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        data = file.read(8)
        file.seek(at)
        file.write(bytes(byte ^ 0x5A for byte in data))


def _set_schema(manifest: Path, schema: tfs.Schema) -> None:
    manifest.write_bytes(changed_root(manifest.read_bytes(), schema=schema.to_json()))
