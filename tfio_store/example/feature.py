"""`Feature`: one column of a dataset's Examples, and the kind of its values: classes or images."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

ROW_LENGTHS = "/row_lengths"
"""The end of the name of a nested ragged feature's second feature."""

Shape = tuple[int | None, ...]

_TOO_WIDE = 1 << 40
_MOST_DIMS = 255
"""More than numpy has, and few enough to multiply."""
_MOST_DEPTH = 64
"""Of the lists in a default: numpy has no more dimensions."""

_DTYPE = re.compile(r"[<>=|]?(\?|[A-Za-z_][A-Za-z0-9_]{0,63})(\[[0-9]{0,9}[A-Za-zμ]{1,12}\])?")
"""A single dtype. Schemas come from files, and numpy takes other names for programs to parse."""

_INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_STRINGS = ("bytes", "str", "unknown")
"""The last one is of a feature that no record has a value of."""
_TIMES = ("datetime64[", "timedelta64[")

EXACT = (*_INTEGERS[:-1], *_FLOATS[:-1])
"""The dtypes of numbers whose every value int64 or float32 holds."""

_SHOWN = 10
"""So many names of classes are shown."""

_SIGNATURES = {
    "jpeg": (b"\xff\xd8\xff", 0, b""),
    "png": (b"\x89PNG\r\n\x1a\n", 0, b""),
    "gif": (b"GIF8", 0, b""),
    "bmp": (b"BM", 0, b""),
    "webp": (b"RIFF", 8, b"WEBP"),
}
"""The first bytes of a file, and other bytes at an offset."""


@dataclass(frozen=True, slots=True, repr=False)
class ClassLabel:
    """A number from 0 on, which counts the names of classes."""

    names: tuple[str, ...]

    def __repr__(self) -> str:
        """The first names, if there are many."""
        shown = ", ".join(map(repr, self.names[:_SHOWN]))
        more = f", … ({len(self.names)} names)" if len(self.names) > _SHOWN else ""
        return f"ClassLabel({shown}{more})"


def _class_label(names: object) -> ClassLabel:
    """Names that a user or a file gives. TypeError or ValueError for what is none."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"names must be a list of str, got {names!r}")
    found = tuple(names)
    odd = [name for name in found if not isinstance(name, str)]
    if odd:
        raise TypeError(f"names must be str, got {odd[0]!r}")
    twice = len(found) - len(set(found))
    if not found or twice:
        raise ValueError(f"names must be given, and differ; {twice} of them are there twice")
    return ClassLabel(found)


@dataclass(frozen=True, slots=True)
class Image:
    """An encoded image. The encoding is None where images may have any known one."""

    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None and self.encoding not in _SIGNATURES:
            known = ", ".join(map(repr, _SIGNATURES))
            raise ValueError(f"encoding must be None or one of {known}, got {self.encoding!r}")

    def takes(self, data: bytes) -> bool:
        """Whether the data begin as a file of the encoding does."""
        return self.encoding in (encoding_of(data), None) and encoding_of(data) is not None


def encoding_of(data: bytes) -> str | None:
    """The encoding whose signature an image has; None for an unknown one."""
    for encoding, (first, offset, other) in _SIGNATURES.items():
        if data.startswith(first) and data.startswith(other, offset):
            return encoding
    return None


Kind = ClassLabel | Image


def _kind_to_json(kind: Kind) -> dict[str, Any]:
    """A kind as JSON can hold it."""
    if isinstance(kind, ClassLabel):
        return {"class_label": {"names": list(kind.names)}}
    return {"image": {"encoding": kind.encoding}}


def _kind_from_json(value: Mapping[str, Any] | None) -> Kind | None:
    """The kind. None for one that this version does not know: the values are as the dtype says."""
    if value is None:
        return None
    if "class_label" in value:
        return _class_label(value["class_label"]["names"])
    return Image(value["image"]["encoding"]) if "image" in value else None


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a schema: its dtype, its shape, and what a record has that lacks it.

    Args:
        dtype (str): "int64", "float32", "bytes" or "str" (UTF-8); or a dtype that one of the first
            two is converted to: "bool", "uint8", "datetime64[ms]" and others are int64, "float16"
            and "float64" float32; "unknown" of a feature that no record has a value of; or, with
            ``raw``, any numpy dtype of a fixed size. Where a schema says how to write, "float64"
            means ``raw``, since float32 would round.
        shape (tuple): The shape in one record. The first dimension may be None: the number of
            values then differs from record to record, and an absent feature is empty. ``(None,
            None)`` is ragged within the record too; a second feature, NAME/row_lengths, holds the
            lengths of the rows. Default (): a scalar.
        default (scalar | list | None): What a record without the feature gets: a scalar, or nested
            lists of ``shape``. Default None: the feature is required.
        raw (bool): The record holds one byte string: the array's little-endian memory in C order,
            as ``tf.io.decode_raw`` reads it. Default False.
        nullable (bool): A record that lacks the feature holds a null. Default False.
        sequence (bool): The record is a SequenceExample, and the feature one of its feature lists.
            The first dimension of ``shape`` is None, the steps; the others are those of one step.
            ``(None,)`` is one value in each step, ``(None, None)`` any number. Default False.
        kind (ClassLabel | Image | None): What the values mean. `class_label` and `image` say it.
            Default None: they are numbers, text or bytes.

    Raises:
        TypeError: ``dtype`` or ``shape`` is of another type.
        ValueError: The dtype is unknown, or the shape, the default or the kind does not fit.

    Example:
        >>> price = tfs.Feature("float64", default=-1.0)
        >>> price.wire, price.shape, price.nullable
        ('float32', (), False)
        >>> frames = tfs.Feature("float32", (None, 1024), sequence=True)
    """

    dtype: str
    shape: Shape = ()
    default: Any = None
    raw: bool = False
    nullable: bool = False
    sequence: bool = False
    kind: Kind | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape))
        if not isinstance(self.dtype, str):
            object.__setattr__(self, "dtype", _dtype_name(self.dtype))
        known = (*_INTEGERS, *_FLOATS, *_STRINGS)
        if self.raw and self.dtype in _STRINGS:
            raise ValueError(f"raw is for numbers; {self.dtype} is no memory of an array")
        if self.raw:
            self.item_dtype()
        elif self.dtype not in known and not _is_time(self.dtype):
            raise ValueError(
                f"dtype must be one of {', '.join(known)}, datetime64[UNIT], timedelta64[UNIT], "
                f"got {self.dtype!r}"
            )
        if None in self.shape[1:] and self.shape != (None, None):
            raise ValueError(
                f"only the first dimension may be None (or both of two), got {self.shape}"
            )
        if self.sequence:
            self._check_sequence()
        if self.width >= _TOO_WIDE:
            raise ValueError(f"shape {self.shape} has too many values")
        if self.ragged and self.width == 0:
            raise ValueError(f"rows of no values can't be told apart: shape {self.shape}")
        if self.default is not None:
            self._check_default()
        if self.kind is not None:
            self._check_kind(self.kind)

    @classmethod
    def class_label(
        cls,
        names: Iterable[str],
        *,
        shape: Shape = (),
        default: int | None = None,
        nullable: bool = False,
    ) -> Feature:
        """Make a feature of classes: the record holds their numbers, the schema their names.

        Writing takes numbers and names. Decoding gives numbers, or names on request.

        Args:
            names (list[str]): The names of the classes 0, 1, and so on.
            shape (tuple): See `Feature`. Default ().
            default (int | None): See `Feature`. Default None.
            nullable (bool): See `Feature`. Default False.

        Returns:
            Feature: With the dtype int64.

        Raises:
            TypeError: A name is no str.
            ValueError: There is no name, or one is there twice; or see `Feature`.

        Example:
            >>> schema = tfs.Schema({"animal": tfs.Feature.class_label(["cat", "dog"])})
            >>> records = tfs.encode_examples({"animal": ["dog", "cat"]}, schema=schema)
            >>> tfs.decode_examples(records, schema)["animal"]
            array([1, 0])
            >>> tfs.decode_examples(records, schema, labels="names")["animal"]
            array(['dog', 'cat'], dtype=object)
        """
        return cls("int64", shape, default, nullable=nullable, kind=_class_label(names))

    @classmethod
    def image(
        cls, encoding: str | None = None, *, shape: Shape = (), nullable: bool = False
    ) -> Feature:
        """Make a feature of encoded images. Decoding gives their bytes, or pixels on request.

        Args:
            encoding (str | None): "jpeg", "png", "gif", "bmp" or "webp". What is written must be
                of it. Default None: any of these.
            shape (tuple): See `Feature`. Default (): one image.
            nullable (bool): See `Feature`. Default False.

        Returns:
            Feature: With the dtype bytes.

        Raises:
            ValueError: The encoding is unknown; or see `Feature`.

        Example:
            >>> schema = tfs.Schema({"photo": tfs.Feature.image("png")})
            >>> import numpy as np
            >>> photo = tfs.encode_image(np.zeros((2, 3, 3), np.uint8), "png")
            >>> records = tfs.encode_examples({"photo": [photo]}, schema=schema)
            >>> tfs.decode_examples(records, schema, decode_images=True)["photo"][0].shape
            (2, 3, 3)
        """
        return cls("bytes", shape, nullable=nullable, kind=Image(encoding))

    @classmethod
    def text(
        cls, *, shape: Shape = (), default: str | None = None, nullable: bool = False
    ) -> Feature:
        """Make a feature of text in UTF-8: another way to write ``Feature("str")``.

        Args:
            shape (tuple): See `Feature`. Default ().
            default (str | None): See `Feature`. Default None.
            nullable (bool): See `Feature`. Default False.

        Returns:
            Feature: With the dtype str.

        Raises:
            ValueError: See `Feature`.

        Example:
            >>> tfs.Feature.text() == tfs.Feature("str")
            True
        """
        return cls("str", shape, default, nullable=nullable)

    def _check_kind(self, kind: Kind) -> None:
        if not isinstance(kind, ClassLabel | Image):
            raise TypeError(f"kind must be a ClassLabel or an Image, got {kind!r}")
        wanted = "int64" if isinstance(kind, ClassLabel) else "bytes"
        if self.dtype != wanted or self.raw:
            raise ValueError(f"{kind} has the dtype {wanted}, not {'raw ' * self.raw}{self.dtype}")
        if isinstance(kind, ClassLabel) and self.default is not None:
            numbers = np.array(self.default)
            if ((numbers < 0) | (numbers >= len(kind.names))).any():
                raise ValueError(f"default {self.default} counts none of {kind}")

    def _check_sequence(self) -> None:
        if not self.ragged:
            raise ValueError(
                "a feature list has steps, and the first dimension of its shape is None; got "
                f"{self.shape}"
            )
        if self.raw:
            raise ValueError(f"a feature list holds no raw memory; steps of {self.dtype} as bytes")

    def _check_default(self) -> None:
        if self.ragged:
            raise ValueError(
                "a feature whose first dimension is None has no default: absent is empty"
            )
        if isinstance(self.default, np.ndarray) and self.default.dtype.kind not in "mM":
            object.__setattr__(self, "default", self.default.tolist())
        got = np.shape(np.array(self.default, dtype=object))
        if got not in ((), self.shape):
            raise ValueError(f"default must be a scalar or of shape {self.shape}, got shape {got}")
        try:
            with np.errstate(over="ignore"):
                cast = np.array(self.default, self.item_dtype())
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"default {self.default!r} is no {self.dtype}: {error}") from None
        if _is_changed(self.default, cast):
            raise ValueError(f"default {self.default!r} is no {self.dtype}: it would become {cast}")
        if cast.dtype.kind in "mM":
            object.__setattr__(self, "default", _scalars(cast))

    @property
    def ragged(self) -> bool:
        """Whether the number of values differs from record to record (bool)."""
        return bool(self.shape) and self.shape[0] is None

    @property
    def nested(self) -> bool:
        """Whether the feature is ragged within the record too (bool)."""
        return self.shape == (None, None)

    def step(self) -> Feature:
        """Return the feature that one step of a feature list is.

        Returns:
            Feature: Of the shape behind the steps.

        Example:
            >>> tfs.Feature("float32", (None, 1024), sequence=True).step().shape
            (1024,)
        """
        return Feature(self.dtype, self.shape[1:])

    @property
    def wire(self) -> str:
        """The type in the record: "int64", "float32" or "bytes" (str)."""
        if self.raw or self.dtype in _STRINGS:
            return "bytes"
        return "float32" if self.dtype in _FLOATS else "int64"

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The fixed dimensions: the shape without a leading None (tuple of int)."""
        dims = self.shape[2 if self.nested else 1 if self.ragged else 0 :]
        return tuple(dim for dim in dims if dim is not None)

    @property
    def width(self) -> int:
        """How many values ``row_shape`` takes (int)."""
        return math.prod(self.row_shape)

    def item_dtype(self) -> np.dtype[Any]:
        """Return the dtype of the decoded values.

        Returns:
            numpy.dtype: object for "bytes" and "str".
        """
        if self.dtype in _STRINGS:
            return np.dtype(object)
        return _numpy_dtype(self.dtype)

    def to_json(self) -> dict[str, Any]:
        """Turn the feature into what JSON can hold.

        Returns:
            dict: What `from_json` takes.
        """
        result: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape)}
        if self.default is not None:
            result["default"] = _default_to_json(self.default)
        if self.kind is not None:
            result["kind"] = _kind_to_json(self.kind)
        flags = ("raw", "nullable", "sequence")
        return result | {flag: True for flag in flags if getattr(self, flag)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Feature:
        """Make a feature of what `to_json` returned.

        Args:
            value (dict): With "dtype" and "shape", and perhaps "default", "raw", "nullable",
                "sequence" and "kind".

        Returns:
            Feature: An equal one.

        Raises:
            KeyError: "dtype" or "shape" is missing.
            ValueError: It is no feature.
        """
        return cls(
            dtype=str(value["dtype"]),
            shape=tuple(value["shape"]),
            default=_default_from_json(value.get("default")),
            raw=bool(value.get("raw", False)),
            nullable=bool(value.get("nullable", False)),
            sequence=bool(value.get("sequence", False)),
            kind=_kind_from_json(value.get("kind")),
        )


def _shape(shape: Any) -> Shape:
    if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
        raise TypeError(f"shape must be a tuple of int and None, got {shape!r}")
    shape = tuple(shape)
    if len(shape) > _MOST_DIMS:
        raise ValueError(f"shape has {len(shape)} dimensions, and at most {_MOST_DIMS} can be read")
    dims = tuple(None if dim is None else int(dim) for dim in shape)
    if any(dim is not None and dim < 0 for dim in dims):
        raise ValueError(f"shape must have no negative dimension, got {dims}")
    return dims


def _is_time(dtype: str) -> bool:
    """Whether it is numpy's name of datetimes or durations in a unit."""
    return dtype.startswith(_TIMES) and _numpy_dtype(dtype).name == dtype


def _dtype_name(dtype: Any) -> str:
    if dtype in (bytes, str):
        return str(dtype.__name__)
    try:
        return str(np.dtype(dtype).name)
    except (TypeError, ValueError):
        raise TypeError(f"{dtype!r} is no dtype") from None


@lru_cache(maxsize=64)
def _numpy_dtype(name: str) -> np.dtype[Any]:
    if not _DTYPE.fullmatch(name):
        raise ValueError(f"dtype {name[:100]!r} is not the name of a single dtype of numpy")
    try:
        dtype = np.dtype(name)
    except TypeError:
        import ml_dtypes  # comes with TensorFlow and JAX: bfloat16, float8, int4

        dtype = np.dtype(getattr(ml_dtypes, name, None))
        if dtype.name != name:
            raise ValueError(f"dtype {name!r} is not known to numpy") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"dtype {name!r} has no fixed size")
    if dtype != dtype.newbyteorder("="):
        raise ValueError(
            f"dtype {name!r} is big-endian, and raw memory is not: pass {dtype.name!r}"
        )
    return dtype


def _is_changed(default: Any, cast: npt.NDArray[Any]) -> bool:
    """Whether the dtype makes other values of a default. Floats may be rounded."""
    kind = cast.dtype.kind
    if kind in "mM":
        given = np.array(default)
        return given.dtype.kind == kind and bool(((cast != given) & ~np.isnat(given)).any())
    if kind == "f":
        return bool((np.isinf(cast) & np.isfinite(np.array(default, np.float64))).any())
    return kind in "biu" and cast.tolist() != np.array(default, object).tolist()


def _scalars(array: Any) -> Any:
    """Nested lists of numpy's scalars, which know their unit."""
    return [_scalars(item) for item in array] if np.ndim(array) else array[()]


def _default_to_json(value: Any) -> Any:
    """Bytes become {"base64": ...}; NaN and infinities, which JSON lacks, {"float": ...}. Datetimes
    become ISO strings, and timedeltas numbers of their unit as strings."""
    if isinstance(value, (list, tuple)):
        return [_default_to_json(item) for item in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, np.timedelta64) and not np.isnat(value):
        return str(value.astype(np.int64))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    return value


def _default_from_json(value: Any, depth: int = 0) -> Any:
    if isinstance(value, list):
        if depth == _MOST_DEPTH:
            raise ValueError(f"a default is nested more than {_MOST_DEPTH} lists deep")
        return [_default_from_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["base64"]) if "base64" in value else float(value["float"])
    return value
