"""What the values of a feature mean, beside what a record holds of them.

A record holds a class as a number, and an image as encoded bytes. A reader that does not know the
kind reads just these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ClassLabel",
    "Image",
    "Kind",
    "class_label",
    "encoding_of",
    "kind_from_json",
    "kind_to_json",
]

_SHOWN = 10

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
        """Of many names the first ones."""
        shown = ", ".join(map(repr, self.names[:_SHOWN]))
        more = f", … ({len(self.names)} names)" if len(self.names) > _SHOWN else ""
        return f"ClassLabel({shown}{more})"


def class_label(names: object) -> ClassLabel:
    """What a user or a file gives as names. TypeError or ValueError for what is none."""
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


def kind_to_json(kind: Kind) -> dict[str, Any]:
    """What JSON can hold of a kind."""
    if isinstance(kind, ClassLabel):
        return {"class_label": {"names": list(kind.names)}}
    return {"image": {"encoding": kind.encoding}}


def kind_from_json(value: Mapping[str, Any] | None) -> Kind | None:
    """The kind. None for one that this version does not know: the values are as the dtype says."""
    if value is None:
        return None
    if "class_label" in value:
        return class_label(value["class_label"]["names"])
    return Image(value["image"]["encoding"]) if "image" in value else None
