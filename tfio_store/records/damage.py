"""What is said of damage. Every `DataLossError` is made here, and so is its sentence, unless that
comes from a decoder: of a codec, of images. No I/O.
"""

from __future__ import annotations

import string
from typing import TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import (
    CorruptRecordError,
    DataLossError,
    Reason,
    SchemaError,
    TruncatedRecordError,
)

_Placed = TypeVar("_Placed", CorruptRecordError, SchemaError)

IN_HEADER = "the data ends inside a record's header"

CUT = ": it was cut, or replaced by a shorter one"
"""What may have happened to a file that is too short."""

SPILLED = "what was spilled to a temporary file reads back otherwise; is the disk in order?"


def damaged(
    kind: Reason,
    reason: str | None = None,
    *,
    path: str,
    offset: int,
    head: BytesLike | None = None,
) -> DataLossError:
    """The error for this kind of damage. ``reason``: the sentence, if there is more to say than the
    kind's. ``offset``: -1 where none is known. ``head``: see `said_of`."""
    said, text = said_of(kind, reason or kind.text, head)
    made = TruncatedRecordError if kind.is_cut else CorruptRecordError
    return made(text, path=path, offset=offset, kind=said)


def not_an_example(
    why: object, *, offset: int = 0, record: int | None = None
) -> CorruptRecordError:
    """The error of a record in memory that is no Example, or of one of a batch."""
    reason, kind = f"{Reason.NOT_EXAMPLE.text}: {why}", Reason.NOT_EXAMPLE
    return CorruptRecordError(reason, path="<buffer>", offset=offset, kind=kind, record=record)


def uncounted(path: str) -> DataLossError:
    """The error of a file whose records could not be counted."""
    return DataLossError("its records were not counted", path=path, offset=0)


def placed(error: _Placed, path: str, record: int | None, offset: int = -1) -> _Placed:
    """An error of a record in memory, as that of a record of a source, whose number it names."""
    if isinstance(error, SchemaError):
        assert record is not None
        return SchemaError(error.reason, feature=error.feature, record=record, path=path)
    return CorruptRecordError(
        error.reason, path=path, offset=offset, kind=error.kind, record=record
    )


def said_of(kind: Reason, reason: str, head: BytesLike | None) -> tuple[Reason, str]:
    """The kind of damage and its sentence. ``head`` are the first bytes of the file, if the damage
    is there: then it may be a file of something else."""
    more = "" if head is None else hint(head)
    return (Reason.OTHER_FORMAT if more else kind), reason + more


def lacks(what: str, missing: int) -> str:
    """That a file ends in a "block" or "record", or before it."""
    return f"the file ends inside or before a {what}, {missing} bytes of which are missing"


def lacks_records(missing: int) -> str:
    """That a block has fewer records than its index tells of."""
    return f"the data ends inside a block: {missing} of its records are missing"


def short_record(need: int) -> str:
    """That a stream ends inside a record."""
    return f"the data ends {need} or more bytes before the record does"


def ends_before(end: int, stop: int, told: str = "its listing, manifest or index") -> str:
    """That a file ends at a byte, and is ``told`` to have more."""
    return f"the file ends at byte {end}, before the byte {stop} that {told} says"


def nothing_read(first: str) -> str:
    """That all of a file is damaged. ``first``: what was found first."""
    return f"nothing in this file can be read: {first}"


def nothing_sound(first: object) -> str:
    """That there is nothing to copy. ``first``: the damage that was found first."""
    return f"no sound record was found, and nothing was written: {first}"


def other_codec(found: str | None) -> str:
    """To append: what the file holds, if it is not ``compression=``; None stands for raw."""
    return f"{LOOKS_LIKE}{found or 'raw'} records; leave compression= at its default"


# What a file is that holds no TFRecords, by its first bytes.


HEAD_BYTES = 512
"""This many first bytes are enough to recognize a format."""

_MAGIC = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (0, b"RIFF", "a RIFF file (WAV, AVI or WebP)"),
    (4, b"ftyp", "an MP4 video or HEIF image"),
    (0, b"%PDF", "a PDF document"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"ARROW1", "an Arrow (Feather) file"),
    (0, b"\xff\xff\xff\xff", "an Arrow stream"),
    (0, b"ORC", "an ORC file"),
    (0, b"Obj\x01", "an Avro file"),
    # the signature that every Riegeli file begins with, by its block header and chunk header
    (0, b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", "an ArrayRecord or Riegeli file"),
    (0, b"\x0a\x23\xd7\xce", "an MXNet RecordIO file"),
    (0, b"SEQ\x06", "a Hadoop SequenceFile"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"\x93NUMPY", "a NumPy .npy file"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"PK\x03\x04", "a ZIP archive (perhaps .npz)"),
    (257, b"ustar", "a tar archive (perhaps WebDataset)"),
    (0, b"BZh", "bzip2 data, which TFRecord files are not compressed with"),
    (0, b"\xfd7zXZ\0", "xz data, which TFRecord files are not compressed with"),
    (0, b"\x04\x22\x4d\x18", "LZ4 data, which TFRecord files are not compressed with"),
    (0, b"\xff\x06\0\0sNaPpY", "Snappy data, which TFRecord files are not compressed with"),
    (0, b"\x1f\x8b\x08", "GZIP data; leave compression= at its default, or name it"),
    (0, b"\x28\xb5\x2f\xfd", "ZSTD data; leave compression= at its default, or name it"),
    (0, b"\x80\x04\x95", "a Python pickle"),
    (0, b"TFIOSIDX", "a block index of this library"),
    (0, b"version https://git-lfs", "a Git LFS pointer: the file itself was not fetched"),
)

LOOKS_LIKE = "; the file looks like "
"""Stands before what a file seems to be, in the reason of an error."""

_TABLES = ("CSV", "JSON", "a Parquet file", "an Arrow (Feather) file", "an Arrow stream")
"""What `tfio_store.convert` reads."""

_PRINTABLE = frozenset(string.printable.encode())


def looks_like(head: BytesLike) -> str | None:
    """Say in a few words what a file with these first bytes seems to be; None if unknown."""
    data = bytes(memoryview(head)[:HEAD_BYTES])
    for at, magic, name in _MAGIC:
        if data[at : at + len(magic)] == magic:
            return name
    return _text(data)


def _text(data: bytes) -> str | None:
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if len(text) < 4 or not _is_text(text):
        return None
    if text[:1] == b"<":
        return "HTML or XML (perhaps a server's error page)"
    if text[:1] in (b"{", b"["):
        return "JSON"
    line = text.splitlines()[0]
    for separator, name in ((b",", "CSV"), (b"\t", "tab-separated text"), (b";", "CSV")):
        if separator in line and separator + b" " not in line:  # a comma of a sentence
            return name
    return "plain text"


def _is_text(data: bytes) -> bool:
    if _PRINTABLE.issuperset(data):
        return True
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:  # not the character that the cut went through
            return False
        text = data[: error.start].decode()
    return all(character.isprintable() or character.isspace() for character in text)


def hint(head: BytesLike) -> str:
    """The answer of `looks_like`, to append to an error's reason; "" if there is none."""
    found = looks_like(head)
    remedy = "; convert() makes a dataset of it" if found in _TABLES else ""
    return "" if found is None else f"{LOOKS_LIKE}{found}{remedy}"
