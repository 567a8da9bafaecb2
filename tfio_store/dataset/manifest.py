"""A dataset's manifest, which is the root of all that is committed, to and from bytes. No I/O.

It is JSON, for people and other programs. It says where the pages of the list of shards lie
(`Pages`), and the totals of each. It comes from outside when it is read. So each number is
checked against the bytes at hand before memory is allocated for it, and no name may leave the
dataset's folder.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import BlockTable, ShardInfo
from tfio_store.dataset.checks import check_name, counted, held
from tfio_store.dataset.pages import Pages, Ranges
from tfio_store.dataset.shard_page import pages_from_json, pages_to_json
from tfio_store.errors import ManifestError
from tfio_store.example.schema import written_schema
from tfio_store.records.compression import CODECS
from tfio_store.records.framing import crc32c
from tfio_store.storage.aside import original

__all__ = [
    "BlockTable",
    "DatasetManifest",
    "Fingerprint",
    "Growth",
    "Loss",
    "Replaced",
    "ShardInfo",
    "describe",
    "listing_of",
]


# `Fingerprint`: distinguishes a writer's own object from another one of the same name.


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """An object's name within the dataset's folder, its bytes, and their CRC32C.

    Size and CRC are None if the name alone proves whose it is.
    """

    name: str
    nbytes: int | None = None
    crc32c: int | None = None
    etag: str | None = None
    """The version that the store reported to the writer; not kept."""

    def to_json(self) -> list[str | int | None]:
        return [self.name, self.nbytes, self.crc32c]

    @classmethod
    def from_json(cls, document: Any) -> Fingerprint:
        """ValueError for anything that `to_json` does not make."""
        if not isinstance(document, list) or len(document) != 3:
            raise ValueError("a fingerprint has a name, a size and a CRC32C")
        name, nbytes, crc32c = document
        if not isinstance(name, str):
            raise ValueError(f"a name is {type(name).__name__}, not a string")
        for number, limit in ((nbytes, 1 << 63), (crc32c, 1 << 32)):
            count = isinstance(number, int) and not isinstance(number, bool)
            if number is not None and not (count and 0 <= number < limit):
                raise ValueError(f"{name!r}: {number!r} is no size or CRC32C")
        return cls(name, nbytes, crc32c)


FORMAT = "tfio_store.dataset"
VERSION = 1
KEPT_HISTORY = 64
_CRC = re.compile(rb',\s*"crc32c": "([0-9a-f]{8})"\s*\}\s*\Z')


@dataclass(frozen=True, slots=True)
class Replaced:
    """Objects of an earlier generation, which its readers may still be reading."""

    until: float
    """When they may go, in Unix time."""
    objects: tuple[Fingerprint, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """What is left to do until patterns find the shards of a manifest, and no others.

    Until then its new shards have hidden names. See `tfio_store.write.publish`.
    """

    first: int = 0
    """The number of the first shard with a hidden name: patterns find those before it."""
    plain: str | None = None
    """The generation whose shards get names without a tag."""
    keep: float = 0.0
    """Seconds for which hidden names stay, for who has opened them."""
    turn: int = 0
    """How often the manifest was put again, so that those who were publishing it begin again."""

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "plain": self.plain,
            "keep": self.keep,
            "turn": self.turn,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that a dataset lacks since it was salvaged from damaged files.

    Attributes:
        records (int | None): How many. None if nobody had counted those of the source.
        shards (tuple[str]): The names of the files that they were lost of.
    """

    records: int | None
    shards: tuple[str, ...]

    def __str__(self) -> str:
        many = "records" if self.records is None else counted(self.records, "record")
        return f"{many} of {_listed(self.shards)}"

    def to_json(self) -> dict[str, Any]:
        return {"records": self.records, "shards": list(self.shards)}

    @classmethod
    def all_of(cls, losses: Iterable[Loss | None]) -> Loss | None:
        """What several losses come to. None if there was none."""
        known = [loss for loss in losses if loss is not None]
        if not known:
            return None
        counts = [loss.records for loss in known if loss.records is not None]
        names = dict.fromkeys(name for loss in known for name in loss.shards)
        return cls(sum(counts) if len(counts) == len(known) else None, tuple(names))


def _listed(names: tuple[str, ...]) -> str:
    """Some of the names."""
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


@dataclass(frozen=True, slots=True)
class Growth:
    """What an append changed about a dataset's features.

    Attributes:
        generation (str): The generation that the append made.
        record (int): The number of its first record: older records have smaller numbers.
        added (tuple[str]): Features that no older record has.
        optional (tuple[str]): Features that every older record has, and one of the new ones may
            lack.
    """

    generation: str
    record: int
    added: tuple[str, ...]
    optional: tuple[str, ...]

    def __str__(self) -> str:
        found = ((self.added, "new"), (self.optional, "may be missing"))
        parts = [f"{_listed(names)} ({how})" for names, how in found if names]
        return f"{', '.join(parts)} since record {self.record:,}"

    def to_json(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "record": self.record,
            "added": list(self.added),
            "optional": list(self.optional),
        }


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """The contents of a committed dataset.

    Attributes:
        shards (Sequence[ShardInfo]): The shards, in order. They are read as they are asked for.
        compression (str | None): None, "GZIP", "ZLIB" or "ZSTD".
        schema (dict | None): The schema, in the form of `Schema.to_json`. Default None.
        metadata (dict | None): What the caller of the writer wanted kept; JSON can hold it. Default
            None.
        generation (str | None): Drawn at random by each writer: no two manifests of a dataset have
            the same. Default None.
        history (tuple[str]): The generations before this one, the newest first, at most 64. Default
            ().
        shard_template (str | None): How the shards with plain names were named. Default None: this
            library did not write them.
        replaced (tuple[Replaced]): Objects of earlier generations, which readers may still be
            reading. Default ().
        lost (Loss | None): Records that `salvage` could not save. Default None.
        growth (tuple[Growth]): The appends that changed the schema, the oldest first. Default ().
        values (dict[str, int]): How many values lists of numbers have in all records, such as
            tokens; of those that were counted as they were written. Default {}.
        publish (Publish | None): What is left to do until patterns find these shards and no others.
            Default None.

    Example:
        >>> manifest = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=2)
        >>> manifest.records, len(manifest.shards), manifest.compression
        (3, 2, None)
    """

    shards: Sequence[ShardInfo]
    compression: str | None
    schema: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    generation: str | None = None
    history: tuple[str, ...] = ()
    shard_template: str | None = None
    replaced: tuple[Replaced, ...] = ()
    lost: Loss | None = None
    growth: tuple[Growth, ...] = ()
    values: dict[str, int] = field(default_factory=dict)
    publish: Publish | None = None

    def __repr__(self) -> str:
        packed = "" if self.compression is None else f", {self.compression}"
        inside = held(self.records, len(self.shards))
        return f"<DatasetManifest of {inside}, {counted(self.nbytes, 'byte')}{packed}>"

    @property
    def records(self) -> int:
        """The number of records in all shards (int)."""
        if isinstance(self.shards, Pages):
            return self.shards.totals.records
        return sum(shard.records for shard in self.shards)

    @property
    def nbytes(self) -> int:
        """The bytes of all shards, as they are stored (int)."""
        if isinstance(self.shards, Pages):
            return self.shards.totals.nbytes
        return sum(shard.nbytes for shard in self.shards)

    def names(self) -> set[str]:
        """List the objects that make up the dataset: shards, and those of its index.

        Returns:
            set[str]: Their names in the manifest's folder.
        """
        if not isinstance(self.shards, Pages):
            return {shard.name for shard in self.shards}
        return {*(one.shard.name for one in self.shards.rows()), *self.parts()}

    def parts(self) -> set[str]:
        """List the objects of the index, which hold the list of shards and their block tables.

        Returns:
            set[str]: Their names in the manifest's folder.
        """
        if not isinstance(self.shards, Pages):
            return set()
        return {one.name for one in self.shards.objects}

    def replaced_names(self) -> set[str]:
        """List the objects of earlier generations that are kept.

        Returns:
            set[str]: Their names in the manifest's folder, and, while something is left to
            `publish`, those that they had before.
        """
        kept = {each.name for one in self.replaced for each in one.objects}
        return kept if self.publish is None else kept | set(map(original, kept))

    def history_after(self) -> tuple[str, ...]:
        """Return the history of the manifest that comes after this one.

        Returns:
            tuple[str]: Generations, the newest first, at most 64.
        """
        newest = () if self.generation is None else (self.generation,)
        return (*newest, *self.history)[:KEPT_HISTORY]

    def without_expired(self, now: float) -> tuple[DatasetManifest, tuple[Fingerprint, ...]]:
        """Drop replaced objects that were kept long enough.

        Args:
            now (float): Unix time in seconds.

        Returns:
            tuple[DatasetManifest, tuple[Fingerprint]]: The manifest without them, and the objects.
        """
        lasting = tuple(one for one in self.replaced if one.until > now)
        gone = tuple(each for one in self.replaced if one.until <= now for each in one.objects)
        return replace(self, replaced=lasting), gone

    def to_bytes(self) -> bytes:
        """Serialize the manifest.

        Returns:
            bytes: JSON in UTF-8.

        Raises:
            TypeError: JSON cannot hold the schema or the metadata.
            ValueError: They hold NaN or an infinity.
        """
        document = {
            "format": FORMAT,
            "version": VERSION,
            "generation": self.generation,
            "history": self.history,
            "compression": self.compression,
            "shards": len(self.shards),
            "records": self.records,
            "nbytes": self.nbytes,
            "shard_template": self.shard_template,
            "schema": self.schema,
            "metadata": self.metadata,
            **({} if self.lost is None else {"lost": self.lost.to_json()}),
            **({"growth": [one.to_json() for one in self.growth]} if self.growth else {}),
            **({"values": self.values} if self.values else {}),
            **_pages_to_json(self),
            "replaced": [
                {"until": one.until, "objects": [each.to_json() for each in one.objects]}
                for one in self.replaced
            ],
            **({} if self.publish is None else {"publish": self.publish.to_json()}),
        }
        return _with_crc(document)

    @classmethod
    def from_bytes(
        cls, data: BytesLike, *, path: str = "<manifest>", folder: Ranges | None = None
    ) -> DatasetManifest:
        """Parse what `to_bytes` returned.

        Args:
            data (bytes-like): The JSON document.
            path (str): What to name in errors. Default "<manifest>".
            folder (Ranges | None): Where the index is read. Default None.

        Returns:
            DatasetManifest: Its shards are read as they are asked for.

        Raises:
            ManifestError: It is no manifest, or contradicts itself.
        """
        try:
            document = json.loads(bytes(data), parse_constant=_no_number, parse_float=_finite)
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise ValueError(f'"format" is not "{FORMAT}"')
            _check_crc(bytes(data))
            return _parse(document, folder)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ManifestError(f"{path}: not a manifest that can be read: {error}") from error


def listing_of(manifest: DatasetManifest) -> Pages:
    """The list of a manifest's shards. ValueError before an index lists them."""
    if not isinstance(manifest.shards, Pages):
        raise ValueError("the manifest lists no shards yet: no index has been put")
    return manifest.shards


def describe(
    codec: str | None, schema: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None
) -> DatasetManifest:
    """Make a manifest without shards. It refuses what JSON can't hold now, not after the
    writing."""
    manifest = DatasetManifest(
        (),
        codec,
        schema=None if schema is None else written_schema(schema).to_json(),
        metadata=None if metadata is None else dict(metadata),
    )
    try:
        manifest.to_bytes()
    except (TypeError, ValueError) as error:
        raise TypeError(f"schema and metadata must be what JSON can hold: {error}") from error
    return manifest


def _no_number(name: str) -> float:
    raise ValueError(f"it holds {name}, which is no number of JSON")


def _finite(text: str) -> float:
    """An infinity could not be written again, and nothing comes after it."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it holds {text[:40]}, which is too large a number")
    return number


def _with_crc(document: Mapping[str, Any]) -> bytes:
    """The document, a line for each key and each page, with the CRC32C of all bytes before the
    comma of its last key."""
    lines = [f' "{key}": {_lines_of(key, value)}' for key, value in document.items()]
    body = ("{\n" + ",\n".join(lines)).encode()
    return body + b',\n "crc32c": "%08x"\n}\n' % crc32c(body)


def _lines_of(key: str, value: Any) -> str:
    if key != "pages":
        return json.dumps(value, allow_nan=False)
    return "[" + ",".join(f"\n  {json.dumps(page)}" for page in value) + "]"


def _check_crc(data: bytes) -> None:
    """ValueError unless the bytes are those that were written."""
    found = _CRC.search(data)
    if found is None or crc32c(data[: found.start()]) != int(found[1], 16):
        raise ValueError("its bytes do not have the CRC32C in its last key, so it is damaged")


def _pages_to_json(manifest: DatasetManifest) -> dict[str, Any]:
    """What the root says of its list of shards."""
    if not manifest.shards:
        return pages_to_json(())
    pages = listing_of(manifest)
    streams = {"streams": pages.streams} if pages.streams else {}
    return {**streams, **pages_to_json(pages.refs)}


def _parse(document: dict[str, Any], folder: Ranges | None) -> DatasetManifest:
    """ValueError says what is wrong."""
    if document.get("version") != VERSION:
        raise ValueError(
            f"it has version {document.get('version')!r}, and this library reads {VERSION}; a "
            "newer tfio_store may read it"
        )
    history = _texts(document, "history") if "history" in document else ()
    codec = _typed(document, "compression", str, type(None))
    if codec not in (None, *CODECS):
        raise ValueError(f'"compression" is {codec!r}')
    streams = _count(document, "streams") if "streams" in document else 0
    refs = pages_from_json(document.get("objects"), document.get("pages"), streams=bool(streams))
    manifest = DatasetManifest(
        shards=Pages(refs, folder, raw=codec is None, streams=streams),
        compression=codec,
        schema=_typed(document, "schema", dict, type(None)),
        metadata=_typed(document, "metadata", dict, type(None)),
        generation=_typed(document, "generation", str, type(None)),
        history=history,
        shard_template=_typed(document, "shard_template", str, type(None)),
        replaced=tuple(map(_parse_replaced, document.get("replaced", []))),
        lost=_parse_lost(document.get("lost")),
        growth=_parse_growth(document),
        values=_parse_values(document),
        publish=_parse_publish(document.get("publish")),
    )
    totals = len(manifest.shards), manifest.records, manifest.nbytes
    for key, total in zip(("shards", "records", "nbytes"), totals, strict=True):
        if _count(document, key) != total:
            raise ValueError(f'"{key}" is not the sum over the pages')
    since = [*(one.record for one in manifest.growth), manifest.records]
    if since != sorted(since):
        raise ValueError('"growth" is not in order, or begins behind the last record')
    return manifest


def _parse_replaced(replaced: Any) -> Replaced:
    if not isinstance(replaced, dict):
        raise ValueError('an entry of "replaced" is not an object')
    until = _typed(replaced, "until", int, float)
    objects = tuple(map(Fingerprint.from_json, _typed(replaced, "objects", list)))
    for one in objects:
        check_name(one.name)
    return Replaced(float(until), objects)


def _parse_publish(publish: Any) -> Publish | None:
    if publish is None:
        return None
    if not isinstance(publish, dict):
        raise ValueError('"publish" is not an object')
    plain = _typed(publish, "plain", str, type(None))
    keep = float(_typed(publish, "keep", int, float))
    return Publish(_count(publish, "first"), plain, keep, _count(publish, "turn"))


def _parse_lost(lost: Any) -> Loss | None:
    if lost is None:
        return None
    if not isinstance(lost, dict):
        raise ValueError('"lost" is not an object')
    records = None if lost.get("records") is None else _count(lost, "records")
    return Loss(records, _texts(lost, "shards"))


def _parse_growth(document: dict[str, Any]) -> tuple[Growth, ...]:
    growth = _typed(document, "growth", list) if "growth" in document else []
    if not all(isinstance(one, dict) for one in growth):
        raise ValueError('an entry of "growth" is not an object')
    return tuple(
        Growth(
            _typed(one, "generation", str),
            _count(one, "record"),
            _texts(one, "added"),
            _texts(one, "optional"),
        )
        for one in growth
    )


def _parse_values(document: dict[str, Any]) -> dict[str, int]:
    values = _typed(document, "values", dict) if "values" in document else {}
    return {name: _count(values, name) for name in values}


def _texts(document: dict[str, Any], key: str) -> tuple[str, ...]:
    texts = _typed(document, key, list)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f'"{key}" is no list of strings')
    return tuple(texts)


def _typed(document: dict[str, Any], key: str, *types: type) -> Any:
    value = document.get(key)
    if not isinstance(value, types):
        raise ValueError(f'"{key}" is {type(value).__name__}, not {types[0].__name__}')
    return value


def _count(document: dict[str, Any], key: str) -> int:
    value: int = _typed(document, key, int)
    if isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f'"{key}" is {value!r}, not a count')
    return value
