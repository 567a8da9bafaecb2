"""Collects what there is to see, hear and read, and the values that stand beside it as captions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from tfio_store.errors import CorruptRecordError
from tfio_store.example.codec import infer_features
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import RecordBatch
from tfio_store.show.columns import (
    Column,
    Decoded,
    class_shown,
    decoded,
    is_pixels,
    name_of,
    raw_numbers,
)
from tfio_store.show.tally import RECORD
from tfio_store.show.thumbnails import Look, look_at, look_at_pixels, pixel_shape
from tfio_store.tables.media_types import (
    MOST_LETTERS,
    excerpt,
    is_audio,
    is_image,
    media_type,
    shown_value,
)

# The single values of a record, as captions show them.


@dataclass(frozen=True, slots=True)
class SingleValue:
    """The only value of a feature in a record. ``dtype`` is that in the record; ``feature`` is what
    the schema says, if it says anything."""

    name: str
    dtype: str
    value: int | float | bytes
    feature: Feature | None

    def shown(self, most: int = 100) -> str:
        """The value as `Top.value` has it: of a class that has a name with it, of a time as ISO
        8601."""
        value, feature = self.value, self.feature
        if not isinstance(value, int):  # a record may hold floats where the schema has times
            return shown_value(value, most)
        if feature is not None and feature.dtype.startswith("datetime64["):
            return str(np.int64(value).view(feature.dtype))
        return class_shown(value, feature)


def single_values(
    batch: RecordBatch, row: int, schema: Schema | None, *, most: int, longest: int
) -> tuple[SingleValue, ...]:
    """The features of one record of a batch that have one value each, at most so many, without
    byte strings longer than that. Nothing else is decoded."""
    one = batch[row : row + 1]
    try:
        counts = infer_features(batch[row])
    except CorruptRecordError:
        return ()
    names = {name for name, (_, count) in list(counts.items())[:most] if count == 1}
    found = decoded(one, lambda key: not key.sequence and name_of(key) in names)
    found.columns = [
        column
        for column in found.columns
        if column.dtype != "bytes" or (column.values[:, 1] <= longest).all()
    ]
    return _values(found, schema)


def _values(found: Decoded, schema: Schema | None) -> tuple[SingleValue, ...]:
    values = []
    for column in found.columns:
        name = name_of(column.key)
        feature = None if schema is None else schema.get(name)
        held: list[Any]
        if column.dtype == "bytes":
            held = list(column.strings())
            raw = raw_numbers(feature, held)
            held = held if raw is None else raw[0].tolist()
        else:
            held = column.values.tolist()
        if len(held) == 1:
            values.append(SingleValue(name, column.dtype, held[0], feature))
    return tuple(sorted(values, key=lambda value: value.name))


# Collects what there is to see, hear and read: candidates from every part of the dataset, of which
# a few are shown.


_LOOKS = {"image": 256, "audio": 24, "text": 96}
"""How many candidates of each kind are collected."""

_MOST_PIXELS = 200_000_000
"""Bytes of all images that are decoded."""

_MOST_INFLATED = 1000
"""Pixels that come out of a byte, at most."""

_AUDIO_BYTES = 256 << 10
_MOST_CAPTIONS = 6
_TRIED = 20
"""So many times as many are drawn, for some of their records do not stay."""

_MOST_BESIDE = 200
_LONGEST_BESIDE = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing of a record that may be shown. ``look`` is of an image. ``group`` is a value by
    which the shown ones are spread: of a class."""

    kind: str
    feature: str
    row: int
    nbytes: int
    captions: tuple[tuple[str, str], ...]
    look: Look = field(default_factory=Look)
    media_type: str = ""
    data: bytes = b""
    text: str = ""
    shortened: bool = False


class Gallery:
    """Takes batches, and collects candidates."""

    def __init__(self, schema: Schema | None, seed: int) -> None:
        self._schema = schema
        self._chance = np.random.default_rng([seed, 4])
        self.candidates: dict[str, list[Candidate]] = {kind: [] for kind in _LOOKS}
        self.pixels: dict[str, int] = {}
        """Features that hold raw pixels of the size that stands beside them, and how often."""
        self._decoded = 0
        self.passed_over: dict[str, int] = {}
        """Why images were not looked at, and how many."""

    def add(
        self, batch: RecordBatch, columns: Sequence[Column], rows: Int64Array, progress: float
    ) -> None:
        """``rows``: the batch's records in the sample, or -1. ``progress``: how much of the sample
        has been read with this batch, 0 to 1."""
        rooms = {
            kind: min(int(most * progress) + 1, most) - len(self.candidates[kind])
            for kind, most in _LOOKS.items()
        }
        if not any(room > 0 for room in rooms.values()):
            return
        kinds = [(column, kind) for column in columns for kind in self._kinds(column, batch)]
        count = {kind: max(1, sum(k == kind for _, k in kinds)) for kind in _LOOKS}
        for column, kind in kinds:
            share = -(-rooms[kind] // count[kind])
            for place in self._drawn(column, rows, share):
                self._take(kind, column, place, batch, rows)

    def add_odd(self, batch: RecordBatch, odd: Sequence[int], rows: Int64Array) -> None:
        """Records that are no Examples, each of which may be an image itself."""
        for i in odd:
            data, row = batch[i], int(rows[i])
            found = media_type(data[:4096])
            if row < 0:
                continue
            if is_image(found) and len(self.candidates["image"]) < _LOOKS["image"]:
                self._image(RECORD, row, data, None, ())
            elif is_audio(found) and len(self.candidates["audio"]) < _LOOKS["audio"]:
                self._audio(RECORD, row, data, found or "", ())

    def _kinds(self, column: Column, batch: RecordBatch) -> Iterable[str]:
        """The kinds that the first values of a column may have."""
        if not len(column.values):
            return
        feature = None if self._schema is None else self._schema.get(name_of(column.key))
        heads = [bytes(column.buffer[at : at + min(n, 4096)])
                 for at, n in column.values[:8].tolist()]  # fmt: skip
        types = [media_type(head) for head in heads]
        if is_pixels(feature) or any(map(is_image, types)):
            yield "image"
        elif any(map(is_audio, types)):
            yield "audio"
        elif any(_looks_like_text(head) for head in heads):
            yield "text"
        elif feature is None or not feature.raw:
            yield "image"  # perhaps raw pixels, whose size stands beside them

    def _drawn(self, column: Column, rows: Int64Array, count: int) -> list[int]:
        """Values of records that stay in the sample, by chance: their places in the column."""
        if count <= 0:
            return []
        places = np.arange(len(column.values))
        if len(places) > _TRIED * count:
            places = np.sort(self._chance.choice(len(places), _TRIED * count, replace=False))
        places = places[rows[column.owners(places)] >= 0]
        if len(places) > count:
            places = np.sort(self._chance.choice(places, count, replace=False))
        found: list[int] = places.tolist()
        return found

    def _take(
        self, kind: str, column: Column, place: int, batch: RecordBatch, rows: Int64Array
    ) -> None:
        at, size = column.values[place].tolist()
        data = bytes(column.buffer[at : at + size])
        record = int(column.owners(np.array([place]))[0])
        row, name = int(rows[record]), name_of(column.key)
        beside = single_values(
            batch, record, self._schema, most=_MOST_BESIDE, longest=_LONGEST_BESIDE
        )
        captions = _captions(beside, name)
        if kind == "image":
            shape = self._shape(name, data, beside)
            if shape is not None or is_image(media_type(data[:4096])):
                self._image(name, row, data, shape, captions)
        elif kind == "audio":
            found = media_type(data[:4096])
            if is_audio(found):
                self._audio(name, row, data, found or "", captions)
        elif data and _looks_like_text(data[:4096]):
            text, short = excerpt(data)
            made = Candidate("text", name, row, len(data), captions, text=text, shortened=short)
            self.candidates["text"].append(made)

    def _shape(
        self, name: str, data: bytes, beside: Sequence[SingleValue]
    ) -> tuple[int, ...] | None:
        """The shape of raw pixels: by the schema, or by the features beside them."""
        feature = None if self._schema is None else self._schema.get(name)
        if not data or (media_type(data[:4096]) is not None and not is_pixels(feature)):
            return None
        single = {each.name.lower(): int(each.value) for each in beside if each.dtype == "int64"}
        found = pixel_shape(len(data), feature, single)
        if found is not None and not is_pixels(feature):
            self.pixels[name] = self.pixels.get(name, 0) + 1
        return found

    def _image(
        self,
        name: str,
        row: int,
        data: bytes,
        shape: tuple[int, ...] | None,
        captions: tuple[tuple[str, str], ...],
    ) -> None:
        if self._decoded > _MOST_PIXELS:
            look = Look(passed_over="enough pixels have been decoded")
        else:
            look = look_at(data) if shape is None else look_at_pixels(data, shape)
        self._decoded += _pixels_decoded(look, len(data))
        if look.passed_over:
            self.passed_over[look.passed_over] = self.passed_over.get(look.passed_over, 0) + 1
        made = Candidate("image", name, row, len(data), captions, look)
        self.candidates["image"].append(made)

    def _audio(
        self, name: str, row: int, data: bytes, found: str, captions: tuple[tuple[str, str], ...]
    ) -> None:
        short = len(data) > _AUDIO_BYTES
        shown = _cut_wav(data) if short and found == "audio/wav" else data[:_AUDIO_BYTES]
        made = Candidate(
            "audio", name, row, len(data), captions, media_type=found, data=shown, shortened=short
        )
        self.candidates["audio"].append(made)


def _pixels_decoded(look: Look, nbytes: int) -> int:
    """About how many it took. A damaged file may say that it has any number of them."""
    if look.passed_over:
        return 0
    pixels = look.width * look.height
    if look.broken:
        return min(pixels, _MOST_INFLATED * nbytes)
    return pixels // 4 if look.media_type == "image/jpeg" else pixels


def _looks_like_text(head: bytes) -> bool:
    text, _ = excerpt(head[:MOST_LETTERS], 64)
    return bool(head) and not text.startswith("0x") and "\\x" not in text


def _captions(beside: Sequence[SingleValue], name: str) -> tuple[tuple[str, str], ...]:
    """The single values of the record's other features: classes first, then what is short."""
    captions = [
        (value.feature is None or value.feature.kind is None, value.dtype == "bytes", value)
        for value in beside
        if value.name != name and not _is_media(value)
    ]
    captions.sort(key=lambda each: each[:2])
    return tuple((each.name[:80], each.shown(80)) for _, _, each in captions[:_MOST_CAPTIONS])


def _is_media(value: SingleValue) -> bool:
    return isinstance(value.value, bytes) and media_type(value.value) is not None


def _cut_wav(data: bytes) -> bytes:
    """The beginning of a WAV file, whose header says that this is all."""
    cut = bytearray(data[:_AUDIO_BYTES])
    cut[4:8] = (len(cut) - 8).to_bytes(4, "little")
    at = cut.find(b"data", 12, 4096)
    if at >= 0:
        cut[at + 4 : at + 8] = (len(cut) - at - 8).to_bytes(4, "little")
    return bytes(cut)


def spread(candidates: Sequence[Candidate], most: int, group: str | None) -> list[Candidate]:
    """At most so many of them: of each feature and of each value of ``group`` in turn, and from all
    parts of the dataset."""
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for each in candidates:
        value = dict(each.captions).get(group, "") if group else ""
        groups.setdefault((each.feature, value), []).append(each)
    share = max(1, most // max(1, len(groups)))
    ranked = [_evenly(mine, share) for _, mine in sorted(groups.items())]
    turns = [each for turn in zip_longest(*ranked) for each in turn if each is not None]
    return sorted(turns[:most], key=lambda each: each.row)


def _evenly(mine: list[Candidate], share: int) -> list[Candidate]:
    """All of them: first so many that lie evenly, and then the others."""
    if len(mine) <= share:
        return mine
    first = np.unique(np.linspace(0, len(mine) - 1, share).astype(int)).tolist()
    rest = sorted(set(range(len(mine))) - set(first))
    return [mine[i] for i in (*first, *rest)]
