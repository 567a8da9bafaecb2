"""A random source on a random store, and what is in it."""

from __future__ import annotations

import contextlib
import shutil
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tfio_store as tfs
from tests.differential import oracle
from tests.differential.draw import Draw, same, same_multiset
from tests.servers.place import Place
from tfio_store.read.order import Shuffle

NAMES = (
    "plain.tfrecord", "with space", "br[1]ackets", "ünï-日本", "per%20cent", "a+b=c&d",
    "train.tfrecord.gz", "quo'te", "comma,name", "-dash", "{curly}", "tilde~", "a@b", "x!",
)  # fmt: skip
CODECS = (None, "GZIP", "ZLIB", "ZSTD")
REMOTE_SHARE = {"local": 0.8, "memory": 0.15, "s3": 0.05}


@dataclass
class World:
    """Where cases may put their files."""

    folder: Path
    s3: Place | None = None

    @contextlib.contextmanager
    def place(self, draw: Draw, *, local: bool = False) -> Iterator[Place]:
        kinds = ["local"] if local else [k for k in REMOTE_SHARE if k != "s3" or self.s3]
        shares = [REMOTE_SHARE[kind] for kind in kinds]
        kind = draw.tell("store", draw.random.choices(kinds, shares)[0])
        name = f"case-{uuid.uuid4().hex[:12]}"
        if kind == "local":
            folder = self.folder / name
            folder.mkdir()
            yield Place(str(folder))
            shutil.rmtree(folder)
        elif kind == "memory":
            place = Place(f"memory://{name}")
            yield place
            place.fs.rm(f"/{name}", recursive=True)
        else:
            assert self.s3 is not None
            yield Place(f"{self.s3.root}/{name}", self.s3.storage_options, self.s3.endpoint)


@dataclass
class File:
    url: str
    records: list[bytes]
    codec: str | None
    data: bytes
    indexed: bool = False
    """Whether an index of checkpoints tells its blocks."""


@dataclass
class Made:
    """A source as a user names it, and what is in it, file by file."""

    source: Any
    files: list[File]
    place: Place
    committed: bool = False
    codecs: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.codecs = {file.codec for file in self.files}

    @property
    def records(self) -> list[bytes]:
        return [record for file in self.files for record in file.records]

    @property
    def has_blocks(self) -> bool:
        """Whether every record can be reached by its number."""
        whole = (f.codec is None or f.indexed or not f.data for f in self.files)
        return self.committed or all(whole)

    @property
    def options(self) -> dict[str, Any]:
        return {"storage_options": self.place.storage_options or None}


@contextlib.contextmanager
def small_blocks(draw: Draw) -> Iterator[None]:
    """Blocks and windows of a few records, so that small files have many of them."""
    nbytes = draw.one("block", 64, 300, 2000, 1 << 20)
    window = property(lambda self: self.window * nbytes)
    with (
        patch("tfio_store.dataset.header_walk.BLOCK_BYTES", nbytes),
        patch("tfio_store.dataset.inflate.build.BLOCK_BYTES", nbytes),
        patch("tfio_store.dataset.inflate.build._SHARE", 0),
        patch("tfio_store.write.pipeline._LEAST_BLOCK", nbytes),
        patch("tfio_store.write.pipeline._MOST_BLOCK", nbytes),
        patch.object(Shuffle, "window_bytes", window),
    ):
        yield


def make_records(draw: Draw, most: int = 60) -> list[bytes]:
    """Records that differ, but for empty ones."""
    count = draw.one("records", 0, 1, 2, draw.random.randint(0, most), most)
    sizes = draw.one("sizes", (0, 0), (1, 30), (0, 300), (200, 200), (0, 3000), (0, 9000))
    rng = draw.random
    records = []
    for i in range(count):
        size = rng.randint(*sizes)
        mark = f"{i:04d}".encode()
        records.append((mark + rng.randbytes(size))[: size + 4] if size else b"")
    if count and draw.chance("large", 0.03):
        records[rng.randrange(count)] = rng.randbytes(300_000)
    return records


@contextlib.contextmanager
def make_source(
    draw: Draw, world: World, *, local: bool = False, records: list[bytes] | None = None,
    codecs: tuple[str | None, ...] = CODECS, names_of_files: bool = False,
) -> Iterator[Made]:  # fmt: skip
    """``names_of_files``: a list of files, or one of them, and no dataset."""
    with world.place(draw, local=local) as place, small_blocks(draw):
        found = make_records(draw) if records is None else records
        if not names_of_files and draw.chance("committed", 0.35):
            yield write_set(draw, place, found, codecs)
        else:
            yield write_files(draw, place, found, codecs, names_of_files)


def write_files(
    draw: Draw, place: Place, records: list[bytes], codecs: tuple[str | None, ...], plain: bool
) -> Made:
    """Files that others wrote, named in one of many ways."""
    form = draw.one("form", "path", "list", "list", "glob", "glob", "mixed", "Path")
    if form == "glob" and plain:
        form = "list"
    one = draw.one("codec", None, *codecs)
    count = 1 if form in ("path", "Path") else draw.number("files", 1, 5)
    files = []
    for i in range(count):
        part = records[i * len(records) // count : (i + 1) * len(records) // count]
        codec = draw.random.choice(codecs) if form == "mixed" else one
        data = encode(draw, part, codec)
        name = f"{i:02d}-{draw.random.choice(NAMES)}"
        files.append(File(place.put(name, data), part, codec, data))
    index_some(draw, place, files)
    if count > 1 and draw.chance("empty file", 0.2):
        at = draw.random.randrange(count)
        url = place.put(f"{at:02d}~empty", b"")
        files.insert(at + 1, File(url, [], None if form == "mixed" else one, b""))
    urls: Any = [file.url for file in files]
    draw.tell("urls", [url.rpartition("/")[2] for url in urls])
    if form == "path":
        urls = urls[0]
    elif form == "Path":
        urls = Path(urls[0]) if "://" not in urls[0] else urls[0]
    elif form == "glob":
        urls = place.url(draw.random.choice(("*", "[0-9]*", "??*")))
    elif form in ("list", "mixed") and not plain and draw.chance("twice", 0.1):
        files, urls = [*files, files[0]], [*urls, urls[0]]
    return Made(urls, files, place)


def index_some(draw: Draw, place: Place, files: list[File]) -> None:
    """Checkpoints for the streams, for all or some of them."""
    share = draw.one("indexed", 0, 0.5, 1, 1)
    options = place.storage_options or None
    for file in files:
        if file.codec in ("GZIP", "ZLIB") and draw.random.random() < share:
            if "%" in file.url or draw.random.random() < 0.3:  # which a manifest cannot name
                reader = tfs.RecordReader(file.url, build_index="on_read", storage_options=options)
                same(list(reader), file.records, "the pass that indexes")
            else:
                tfs.build_index(file.url, storage_options=options)
            file.indexed = True


def encode(draw: Draw, records: list[bytes], codec: str | None) -> bytes:
    """A file of one member or, where all readers take it, several."""
    if codec in ("GZIP", "ZLIB") and draw.chance("by zlib", 0.6):
        level, memory = draw.number("level", 0, 9), draw.number("memory", 1, 9)
        strategy = draw.one("strategy", 0, 0, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED)
        packer = zlib.compressobj(
            level, zlib.DEFLATED, 31 if codec == "GZIP" else 15, memory, strategy
        )
        flush = draw.one("flush", zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH)
        frames = map(oracle.frame, records)
        packed = [packer.compress(frame) + packer.flush(flush) for frame in frames]
        return b"".join(packed) + packer.flush()
    if codec in ("GZIP", "ZSTD") and len(records) > 1 and draw.chance("members", 0.3):
        half = len(records) // 2
        members = (oracle.write(records[:half]), oracle.write(records[half:]))
        return b"".join(oracle.compress(member, codec) for member in members)
    return oracle.compress(oracle.write(records), codec)


def write_set(
    draw: Draw, place: Place, records: list[bytes], codecs: tuple[str | None, ...]
) -> Made:
    """A dataset written by the library, and read back by the oracle."""
    codec = draw.one("codec", None, *codecs)
    name = draw.one("name", "train", "with space", "ünï-日本", "a+b")
    how: dict[str, Any] = draw.one(
        "shards", {"num_shards": 1}, {"num_shards": 3}, {"max_shard_records": 7},
        {"max_shard_bytes": 2000}, {"num_shards": 2, "shuffle_seed": 5},
    )  # fmt: skip
    parts = [records]
    if draw.chance("append", 0.2):
        cut = draw.random.randint(0, len(records))
        parts = [records[:cut], records[cut:]]
    for i, part in enumerate(parts):
        with tfs.ShardedWriter(
            place.url(name), compression=codec, if_exists="append" if i else "error", **how,
            storage_options=place.storage_options or None,
        ) as writer:  # fmt: skip
            if draw.random.random() < 0.5:
                writer.write_batch(part)
            else:
                for record in part:
                    writer.write(record)
    files = []
    for shard in writer.manifest.shards:
        data = place.get(shard.name)
        found, whole = oracle.read(oracle.decompress(data, codec))
        same((whole, len(found)), (True, shard.records), shard.name)
        files.append(File(place.url(shard.name), found, codec, data))
    made = Made(place.url(name), files, place, committed=True)
    same_multiset(made.records, records, "what ShardedWriter wrote")
    if how == {"num_shards": 3} and len(parts) == 1:
        for k, file in enumerate(files):
            same(file.records, records[k::3], f"shard {k}")
    if draw.chance("by folder", 0.1):
        made.source = place.url()
    return made
