"""Records to episodes: columns of all steps first, and values of the wanted steps from these.

Numbers are decoded when the record is. Byte strings stay where they lie in the record until
somebody asks for their steps: of images only the asked frames are decoded.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfio_store.episodes.features import Leaf, Tree, nested
from tfio_store.errors import CorruptRecordError, DataLossError, Reason, SchemaError
from tfio_store.example.codec import decode_examples
from tfio_store.example.feature import Feature
from tfio_store.example.kinds import decoded_image, objects_of
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.records.arrays import Int64Array
from tfio_store.records.damage import damaged, placed
from tfio_store.records.framing import RecordBatch
from tfio_store.records.texts import unknown

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MOST_INFLATED = 1 << 30
_MOST_RATIO = 256
"""What is decoded together has no more bytes than the first, or than the second for each byte that
is stored, where that is more. A few bytes inflate to any number."""


class Room:
    """The bytes that values which are decoded together may still have."""

    def __init__(self) -> None:
        self._stored = self._taken = 0

    def most(self, stored: int) -> int:
        """How many there are for so many bytes that are stored."""
        return max(_MOST_INFLATED, _MOST_RATIO * (self._stored + stored)) - self._taken

    def take(self, stored: int, nbytes: int) -> bool:
        """Whether there is room for so many bytes, of so many that are stored."""
        fits = nbytes <= self.most(stored)
        self._stored += stored
        self._taken += nbytes
        return fits


@dataclass(frozen=True, slots=True)
class Place:
    """The name of a record in errors: the dataset, and the number of the episode."""

    path: str
    episode: int
    first_step: int = 0
    """The number of the first step of what was decoded."""

    def odd(self, leaf: Leaf, reason: str) -> SchemaError:
        """The feature does not hold what ``features.json`` says."""
        return SchemaError(reason, feature=leaf.name, record=self.episode, path=self.path)

    def damaged(self, leaf: Leaf, step: int, reason: str) -> DataLossError:
        """A value of the feature is damaged."""
        where = f"episode {self.episode}, step {self.first_step + step}"
        return damaged(Reason.CONTENT, f"{where}: {leaf.name} {reason}", path=self.path, offset=-1)


@dataclass(frozen=True, slots=True)
class Images:
    """How encoded images are decoded: by the short name of a feature, the options of
    `tfio_store.image.decode`. ``encoded``: all others stay as they are, and those whose options are
    None."""

    options: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    encoded: bool = False

    @classmethod
    def of(cls, images: object, leaves: Sequence[Leaf]) -> Images:
        """Read ``images=``. TypeError or ValueError for what it does not take."""
        if images is None:
            return cls()
        if images == "bytes":
            return cls(encoded=True)
        if not isinstance(images, Mapping):
            raise TypeError(
                'images= takes None, "bytes", or a dict such as '
                f'{{"observation/image": (224, 224)}}, not {images!r}'
            )
        known = {name: leaf.short for leaf in leaves for name in (leaf.name, leaf.short)}
        pictures = [leaf.short for leaf in leaves if leaf.kind == "image"]
        options: dict[str, Mapping[str, Any] | None] = {}
        for name, asked in images.items():
            if known.get(name) not in pictures:
                raise ValueError(f"images= names {name!r}: {unknown('image', name, pictures)}")
            if asked == "bytes":
                options[known[name]] = None
                continue
            how = dict(asked) if isinstance(asked, Mapping) else {"size": asked}
            _decode([], how)  # raises for options that there are not
            options[known[name]] = how
        return cls(options)

    def stays_encoded(self, leaf: Leaf) -> bool:
        """Whether the bytes of the image are wanted."""
        return self.encoded or (leaf.short in self.options and self.options[leaf.short] is None)


@dataclass(frozen=True, slots=True)
class Episode:
    """One decoded record. ``columns`` are by the name of the leaf: an array of all steps, a
    `RecordBatch` of byte strings, or a `Ragged` of one of these."""

    place: Place
    steps: int
    columns: Mapping[str, Any]
    nbytes: int


def schema_of(leaves: Sequence[Leaf]) -> Schema:
    """The features of a record that are decoded."""
    features: dict[str, Feature] = {}
    for leaf in leaves:
        features[leaf.key] = Feature(leaf.wire, (None,))
        for key in leaf.row_keys:
            features[key] = Feature("int64", (None,))
        if leaf.shape_key is not None:
            features[leaf.shape_key] = Feature("int64", (None,))
    return Schema(features)


def decode_episode(record: bytes, tree: Tree, schema: Schema, place: Place, steps: int) -> Episode:
    """The columns of a record. ``steps``: how many the index says there are.

    CorruptRecordError where the record is no Example, and SchemaError where it does not hold what
    the features say. Both name the episode.
    """
    raw: Mapping[str, Any]
    try:
        raw = decode_examples([record], schema, strings="batch")
    except CorruptRecordError as error:
        reason = f"episode {place.episode}: {error.reason}"
        raise damaged(error.kind, reason, path=place.path, offset=-1) from error
    except SchemaError as error:
        raise placed(error, place.path, place.episode) from error
    raw, kept = _apart(record, raw)
    columns: dict[str, Any] = {}
    nbytes = kept + 512 * len(tree.leaves)
    for leaf in tree.leaves:
        column = _column(leaf, raw, place)
        columns[leaf.name] = column
        nbytes += _nbytes(column)
        if leaf.of_steps and len(column) != steps:
            raise place.odd(leaf, f"holds {len(column)} steps, where the index says {steps}")
    return Episode(place, steps, columns, nbytes)


def _apart(record: bytes, raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    """The columns, whose byte strings keep not much more in memory than themselves, and how much
    that is. As long as one lies in the record, all of the record is kept."""
    strings = {name: c.values for name, c in raw.items() if isinstance(c.values, RecordBatch)}
    wanted = sum(batch.nbytes for batch in strings.values())
    if 2 * wanted >= len(record):
        return raw, len(record)
    apart = {
        name: Ragged(RecordBatch.from_records(batch), raw[name].row_splits)
        for name, batch in strings.items()
    }
    return {**raw, **apart}, wanted


def _nbytes(column: Any) -> int:
    if isinstance(column, Ragged):
        return _nbytes(column.values) + column.row_splits.nbytes
    if isinstance(column, RecordBatch):
        return 16 * len(column)
    return int(column.nbytes)


def _column(leaf: Leaf, raw: Mapping[str, Any], place: Place) -> Any:
    """All values of a leaf: an array [n, *shape], or bytes of n values (n * width of tensors of
    strings), below as many `Ragged` as there are further sequences."""
    values = raw[leaf.key].values
    if leaf.wire == "bytes":
        count = len(values)
        if leaf.dtype == "bytes" and leaf.shape:
            if leaf.width == 0 or (leaf.width and count % leaf.width):
                raise place.odd(leaf, f"holds {count} texts, which are not of shape {leaf.shape}")
            strings = objects_of(values.tolist())
            if not leaf.levels:
                values = _one_shape(leaf, strings, place)
            elif leaf.width is not None:
                values = strings.reshape(-1, *leaf.shape)
    else:
        values = _numbers(leaf, values, place)
    if leaf.shape_key is not None:
        shapes = raw[leaf.shape_key].values
        if len(shapes) != len(values) * len(leaf.shape):
            raise place.odd(leaf, f"holds {len(shapes)} sizes for the shapes of {len(values)}")
        values = _Shaped(values, shapes.reshape(-1, len(leaf.shape)))
    if leaf.kind == "text":
        values = _texts(leaf, values, place)
    for key in reversed(leaf.row_keys):
        values = _rows(leaf, values, raw[key].values, place)
    return values


def _texts(leaf: Leaf, values: RecordBatch, place: Place) -> Any:
    """Texts, each of which is there once however many steps have it."""
    known: dict[bytes, str] = {}
    found = np.empty(len(values), object)
    try:
        for i, text in enumerate(values):
            if text not in known:
                known[text] = text.decode()
            found[i] = known[text]
    except UnicodeDecodeError as error:
        raise place.odd(leaf, f"is not UTF-8: {error}") from error
    return found


class _Shaped:
    """Encoded tensors, and the shape of each."""

    def __init__(self, values: Any, shapes: Int64Array) -> None:
        self.values, self.shapes = values, shapes
        self.nbytes = 16 * len(values) + shapes.nbytes

    def __len__(self) -> int:
        return len(self.values)


def _numbers(leaf: Leaf, values: Any, place: Place) -> Any:
    dtype = np.dtype(leaf.dtype)
    if leaf.width == 0 or (leaf.width is not None and len(values) % leaf.width):
        raise place.odd(leaf, f"holds {len(values)} values, which are not of shape {leaf.shape}")
    if dtype.kind in "iub" and dtype.itemsize < 8 and len(values):
        least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        low, high = int(values.min()), int(values.max())
        if low < least or high > most:
            odd = low if low < least else high
            raise place.odd(leaf, f"holds {odd}, which does not fit {dtype}")
    values = values.view(dtype) if dtype == np.uint64 else values.astype(dtype, copy=False)
    if not leaf.levels:
        return _one_shape(leaf, values, place)
    return values if leaf.width is None else values.reshape(-1, *leaf.shape)


def _one_shape(leaf: Leaf, values: Any, place: Place) -> Any:
    """The only value of a leaf, as an array of one."""
    known = math.prod(n for n in leaf.shape if n is not None)
    shape = [len(values) // max(1, known) if n is None else n for n in leaf.shape]
    if math.prod(shape) != len(values):
        raise place.odd(leaf, f"holds {len(values)} values, which are not of shape {leaf.shape}")
    return values.reshape(1, *shape)


def _rows(leaf: Leaf, values: Any, lengths: Int64Array, place: Place) -> Ragged:
    if len(lengths) and int(lengths.min()) < 0:
        raise place.odd(leaf, "holds a row of a negative length")
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.minimum(lengths, len(values) + 1), out=splits[1:])
    if splits[-1] != len(values):
        raise place.odd(leaf, f"holds rows that do not add up to its {len(values)} values")
    return Ragged(values, splits)


def values_at(
    episode: Episode, leaf: Leaf, rows: Int64Array, images: Images, room: Room | None = None
) -> Any:
    """The values of a leaf at these steps: an array [k, *shape]; an array of objects where they
    differ in shape, or are texts. ``room`` is for all that is decoded together."""
    room = room or Room()
    if leaf.kind == "image" and not images.stays_encoded(leaf):
        return frames_at([(episode, row) for row in rows.tolist()], leaf, images, None, room)
    column = episode.columns[leaf.name]
    if isinstance(column, Ragged):
        found = [_of_ragged(episode, leaf, column, int(row), images, room) for row in rows]
        return objects_of(found)
    return _plain(episode, leaf, column, rows, room)


def frames_at(
    wanted: Sequence[tuple[Episode, int]],
    leaf: Leaf,
    images: Images,
    threads: int | None,
    room: Room | None = None,
) -> Any:
    """The pixels of frames of any episodes, [k, h, w, c]; an array of objects where they differ in
    size. A frame that is there more than once is decoded once."""
    room = room or Room()
    first: dict[tuple[int, int], int] = {}
    again = []
    for i, (episode, row) in enumerate(wanted):
        at = first.setdefault((episode.place.episode, row), i)
        if at != i:
            again.append((i, at))
    single = list(first.values())

    def place(i: int) -> tuple[Place, int]:
        episode, row = wanted[single[i]]
        return episode.place, row

    data = [wanted[i][0].columns[leaf.name][wanted[i][1]] for i in single]
    shape = [n for n in leaf.shape if n is not None]
    if leaf.short not in images.options and len(shape) == 3 and _is_plain(leaf):
        told, stored = (len(wanted), *shape), sum(map(len, data))
        found = None
        try:
            if math.prod(told) <= room.most(stored):
                found = _decoded_alike(data, told, single, threads)
        except ValueError as error:
            _raise_for_one(leaf, data, place, error)
        if found is not None:
            room.take(stored, found.nbytes)
            for i, at in again:
                found[i] = found[at]
            return found
    pixels = _pixels(leaf, data, images, threads, place, room)
    if not again:
        return pixels
    where = {i: n for n, i in enumerate(single)}
    places = [where[first[e.place.episode, row]] for e, row in wanted]
    return pixels[places]


def _is_plain(leaf: Leaf) -> bool:
    return leaf.dtype == "uint8" and leaf.shape[-1] in _MODES


def _decoded_alike(
    data: Sequence[bytes], shape: tuple[int, ...], places: Sequence[int], threads: int | None
) -> Any:
    """An array of this shape with images at some places; None where one has another size."""
    from tfio_store import image  # which needs more packages

    # the shape is a file's word: one image at least must have it before memory is taken
    if not data or not image.has_size(data[0], shape[1], shape[2]):
        return None
    found = np.empty(shape, np.uint8)
    into = [found[i] for i in places]
    return found if image.decode_into(data, into, fast=True, threads=threads) else None


def _of_ragged(
    episode: Episode, leaf: Leaf, column: Ragged, row: int, images: Images, room: Room
) -> Any:
    """One step of a leaf that is a sequence in each step."""
    start, stop = int(column.row_splits[row]), int(column.row_splits[row + 1])
    inner = column.values
    if isinstance(inner, Ragged):
        inside = [_of_ragged(episode, leaf, inner, i, images, room) for i in range(start, stop)]
        return objects_of(inside)
    if leaf.kind == "image" and not images.stays_encoded(leaf):
        data = [inner[i] for i in range(start, stop)]
        return _pixels(leaf, data, images, None, lambda _: (episode.place, row), room)
    return _plain(episode, leaf, inner, np.arange(start, stop), room)


def _plain(episode: Episode, leaf: Leaf, column: Any, rows: Int64Array, room: Room) -> Any:
    """Values that are no images, of a column without further rows."""
    if leaf.encoding is not None and leaf.kind == "tensor":
        return _tensors(episode, leaf, column, rows, room)
    if not isinstance(column, RecordBatch):
        return column[rows]  # of strings an array of objects
    return objects_of([column[row] for row in rows.tolist()])


def _tensors(episode: Episode, leaf: Leaf, column: Any, rows: Int64Array, room: Room) -> Any:
    dtype = np.dtype(leaf.dtype)
    shapes = column.shapes if isinstance(column, _Shaped) else None
    strings = column.values if isinstance(column, _Shaped) else column
    found = []
    for row in rows.tolist():
        shape = leaf.shape if shapes is None else tuple(shapes[row].tolist())
        exact = None not in shape
        # as Python's integers: those of a file may be too large for others
        size = dtype.itemsize * math.prod(n for n in shape if n is not None)
        data = strings[row]
        if leaf.encoding == "zlib":
            data = _inflated(episode, leaf, row, data, size if exact else None, room)
        known_shape = all(n is None or n >= 0 for n in shape)
        right = known_shape and (len(data) == size if exact else size and len(data) % size == 0)
        if not right:
            reason = f"holds {len(data)} bytes, which are not {dtype} of shape {shape}"
            raise episode.place.damaged(leaf, row, reason)
        array = np.frombuffer(data, dtype)
        found.append(array.reshape([-1 if n is None else n for n in shape]))
    return _together(found, leaf)


def _inflated(
    episode: Episode, leaf: Leaf, row: int, data: bytes, size: int | None, room: Room
) -> bytes:
    left = max(0, min(room.most(len(data)), _MOST_INFLATED))
    too_much = f"is damaged: it inflates to more than the {left:,} bytes that it may have"
    if size is not None and size > left:  # as its shape says, which is a file's word
        raise episode.place.damaged(leaf, row, too_much)
    most = left if size is None else size
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, max(1, most + 1))
    except zlib.error as error:
        reason = f"cannot be decompressed: {error}"
        raise episode.place.damaged(leaf, row, reason) from error
    if not inflater.eof and len(found) <= most:
        raise episode.place.damaged(leaf, row, "is compressed data that is cut")
    if len(found) > left:
        raise episode.place.damaged(leaf, row, too_much)
    room.take(len(data), len(found))
    return found


def _too_many_pixels(leaf: Leaf, at: tuple[Place, int]) -> DataLossError:
    where, step = at
    return where.damaged(
        leaf,
        step,
        f"is damaged: it and those that are decoded with it have more than {_MOST_INFLATED:,} "
        f"bytes of pixels, and more than {_MOST_RATIO} for each byte that is stored; ask for fewer "
        "steps at a time, or choose a size by images=",
    )


def _pixels(
    leaf: Leaf,
    data: Sequence[bytes],
    images: Images,
    threads: int | None,
    place: Callable[[int], tuple[Place, int]],
    room: Room,
) -> Any:
    how = images.options.get(leaf.short)
    found: Sequence[Any] = []
    if how is None or "size" not in how:
        _check_pixels(leaf, data, place, room)
    try:
        if how is not None:
            found = _decode(data, {"mode": _MODES.get(leaf.shape[-1] or 3, "RGB"), **how}, threads)
        elif _is_plain(leaf):
            found = _decode(data, {"mode": _MODES[leaf.shape[-1] or 3]}, threads)
        else:
            found = [_of_pillow(leaf, each) for each in data]
    except (CorruptRecordError, ValueError) as error:
        _raise_for_one(leaf, data, place, error)
    if isinstance(found, np.ndarray):
        return found
    return _together(found, leaf)


def _check_pixels(
    leaf: Leaf, data: Sequence[bytes], place: Callable[[int], tuple[Place, int]], room: Room
) -> None:
    """CorruptRecordError where images have too many pixels together, by their headers."""
    from tfio_store import image  # which needs more packages

    value_bytes = np.dtype(leaf.dtype).itemsize * (leaf.shape[-1] or 3)
    for i, each in enumerate(data):
        height, width = image.size_of(each) or (0, 0)
        if not room.take(len(each), height * width * value_bytes):
            raise _too_many_pixels(leaf, place(i))


def _of_pillow(leaf: Leaf, data: bytes) -> Any:
    array = decoded_image(data)
    if leaf.dtype == "float32":  # TFDS keeps the four bytes of a float as channels
        if array.dtype != np.uint8 or array.shape[-1] != 4:
            raise ValueError("is no image of floats")
        return np.ascontiguousarray(array).view(np.float32)
    return array.astype(leaf.dtype, copy=False)


def _raise_for_one(
    leaf: Leaf,
    data: Sequence[bytes],
    place: Callable[[int], tuple[Place, int]],
    error: Exception,
) -> None:
    """Find the damaged one of some images, and raise for it."""
    for i, each in enumerate(data):
        where, step = place(i)
        try:
            if leaf.dtype == "uint8":
                _decode([each], {}, 1)
            else:
                _of_pillow(leaf, each)
        except (CorruptRecordError, ValueError) as found:
            why = found.__cause__ if isinstance(found, CorruptRecordError) else found
            raise where.damaged(leaf, step, f"is damaged: image {why}") from error
    raise error


def _decode(data: Sequence[bytes], how: Mapping[str, Any], threads: int | None = None) -> Any:
    from tfio_store import image  # which needs more packages

    return image.decode(data, **{"fast": True, **how}, threads=threads)


def _together(arrays: Sequence[Any], leaf: Leaf) -> Any:
    if not arrays:
        return np.zeros((0, *(n or 0 for n in leaf.shape)), leaf.dtype)
    return stacked(arrays)


def stacked(values: Sequence[Any]) -> Any:
    """Values as one array, if they are arrays or numbers of one shape; or else as objects."""
    shapes = {
        each.shape if isinstance(each, np.ndarray | np.generic) and each.dtype != object else None
        for each in values
    }
    return np.stack(values) if len(shapes) == 1 and None not in shapes else objects_of(values)


def context_of(episode: Episode, tree: Tree, images: Images) -> dict[tuple[str, ...], Any]:
    """The values of the episode itself, by path."""
    found, room = {}, Room()
    for leaf in tree.context:
        column = episode.columns[leaf.name]
        if leaf.levels:
            rows = np.arange(len(column))
            found[leaf.path] = values_at(episode, leaf, rows, images, room)
        elif len(column) == 1:
            found[leaf.path] = values_at(episode, leaf, np.zeros(1, np.int64), images, room)[0]
        else:
            raise episode.place.odd(leaf, f"holds {len(column)} values, where one is wanted")
    return found


def whole(episode: Episode, tree: Tree, images: Images) -> dict[str, Any]:
    """An episode as a nested dict: each leaf of the steps is an array of all steps."""
    rows, room = np.arange(episode.steps), Room()
    found = context_of(episode, tree, images)
    for leaf in tree.steps:
        found[leaf.path] = values_at(episode, leaf, rows, images, room)
    return nested(found)
