"""Every exception that this library raises of its own.

    TFIOStoreError
    ├── DataLossError           bytes are wrong or missing: .path, .offset, .kind, .reason
    │   ├── CorruptRecordError      a checksum does not hold, or a stream does not decode
    │   └── TruncatedRecordError    the data ends inside a record
    ├── RecordTooLargeError     a record is longer than the limit: .path, .offset, .length, .limit
    ├── SchemaError             a record does not hold what the schema says: .record, .feature
    ├── NoRecordsError          there is no record to learn the schema from
    └── ManifestError           a manifest or index is unreadable, or contradicts its dataset

    ReplacedError               an OSError: a file is no longer the one that reading began with
    UncertainCommitError        an OSError: a store does not say whether a dataset was published
    DataLossWarning             what ``on_corrupt="skip"`` passed over in a file

Failures of the storage stay what Python calls them (``FileNotFoundError``,
``PermissionError``, other ``OSError``); wrong arguments are ``ValueError`` or
``TypeError``; use after close is ``ValueError``.
"""

from __future__ import annotations

from enum import Enum
from functools import partial

__all__ = [
    "CorruptRecordError",
    "DataLossError",
    "DataLossWarning",
    "ManifestError",
    "NoRecordsError",
    "Reason",
    "RecordTooLargeError",
    "ReplacedError",
    "SchemaError",
    "TFIOStoreError",
    "TruncatedRecordError",
    "UncertainCommitError",
]


def printable(text: str) -> str:
    """``text`` with a sign in place of each character that a terminal would act on: names of files
    and features are whatever somebody wrote."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )


class TFIOStoreError(Exception):
    """The root of this library's exceptions."""


class Reason(str, Enum):
    """What is wrong with bytes, for programs: its value is one word.

    Example:
        >>> kind = tfs.errors.Reason("truncated")
        >>> kind.text, kind.is_cut
        ('the data ends inside a record', True)
    """

    LENGTH_CRC = "length_crc"
    DATA_CRC = "data_crc"
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    SHORT_FILE = "short_file"
    STREAM = "stream"
    SHORT_STREAM = "short_stream"
    OTHER_FORMAT = "other_format"
    NOT_EXAMPLE = "not_example"
    CONTENT = "content"

    @property
    def text(self) -> str:
        """What sentences say of it (str)."""
        return _TEXTS[self]

    @property
    def is_cut(self) -> bool:
        """Whether something is missing at an end, and what is there is sound (bool)."""
        return self in (Reason.TRUNCATED, Reason.SHORT_FILE, Reason.SHORT_STREAM)


_TEXTS = {
    Reason.LENGTH_CRC: "the checksum of a record's length does not hold",
    Reason.DATA_CRC: "the checksum of a record's data does not hold",
    Reason.TOO_LARGE: "a record claims more bytes than max_record_bytes allows",
    Reason.TRUNCATED: "the data ends inside a record",
    Reason.SHORT_FILE: "the file ends before its manifest, index or listing says",
    Reason.STREAM: "the compressed data do not decode",
    Reason.SHORT_STREAM: "the compressed data end too early",
    Reason.OTHER_FORMAT: "the file holds something else than TFRecords",
    Reason.NOT_EXAMPLE: "is not a tf.train.Example",
    Reason.CONTENT: "what is in a record is damaged",
}


class DataLossError(TFIOStoreError):
    """Bytes are wrong or missing.

    Attributes:
        reason (str): One sentence.
        path (str): The file's path or URL; ``"<buffer>"`` for bytes in memory.
        offset (int): The byte of the uncompressed stream at which the damaged record begins. -1
            where only the record's number is known.
        kind (Reason): The reason for programs. Default `Reason.CONTENT`.
        record (int | None): The number of the record that is no Example: among all records of the
            file or source, or, if the path is ``"<buffer>"``, in the batch. Default None.

    Example:
        >>> with tfs.TFRecordWriter("a.tfrecord") as writer:
        ...     writer.write(b"record")
        >>> with open("a.tfrecord", "r+b") as file:
        ...     _ = file.truncate(20)
        >>> try:
        ...     list(tfs.RecordReader("a.tfrecord"))
        ... except tfs.DataLossError as error:
        ...     print(type(error).__name__, error.offset)
        TruncatedRecordError 0
    """

    def __init__(
        self,
        reason: str,
        *,
        path: str,
        offset: int,
        kind: Reason = Reason.CONTENT,
        record: int | None = None,
    ) -> None:
        super().__init__(reason, path, offset)
        self.reason = reason
        self.path = path
        self.offset = offset
        self.kind = kind
        self.record = record

    def __str__(self) -> str:
        where = f" (offset {self.offset})" if self.offset >= 0 else ""
        among = " of the batch" if self.path == "<buffer>" else ""
        which = "" if self.record is None else f"record {self.record}{among} "
        return printable(f"{self.path}: {which}{self.reason}{where}")

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(type(self), self.reason, path=self.path, offset=self.offset)
        return partial(made, kind=self.kind, record=self.record), ()


class CorruptRecordError(DataLossError):
    """A checksum does not hold, or a compressed stream does not decode."""


class TruncatedRecordError(DataLossError):
    """The data ends inside a record."""


class RecordTooLargeError(TFIOStoreError):
    """A record is longer than ``max_record_bytes``. No memory was allocated for it.

    Attributes:
        path (str): The file's path or URL.
        offset (int): The byte of the uncompressed stream at which the record begins.
        length (int): The bytes that the record's header claims.
        limit (int): The limit in bytes.
    """

    def __init__(self, *, path: str, offset: int, length: int, limit: int) -> None:
        super().__init__(path, offset, length, limit)
        self.path = path
        self.offset = offset
        self.length = length
        self.limit = limit

    def __str__(self) -> str:
        return printable(
            f"{self.path}: the record at offset {self.offset} claims {self.length} bytes, over the "
            f"limit of {self.limit}; pass a larger max_record_bytes= if it is real"
        )

    def __reduce__(self) -> tuple[object, ...]:
        where = partial(RecordTooLargeError, path=self.path, offset=self.offset)
        return partial(where, length=self.length, limit=self.limit), ()


class SchemaError(TFIOStoreError, ValueError):
    """A record is whole, but a feature is not what the schema says.

    Attributes:
        reason (str): The end of the sentence that begins with the feature's name.
        feature (str): The feature's name.
        record (int): The record's index: in the batch that was decoded; or among all records of
            the source, if a function read it.
        path (str): The source, as it was named. Default "": a list, or records in memory.
    """

    def __init__(self, reason: str, *, feature: str, record: int, path: str = "") -> None:
        super().__init__(reason, feature, record, path)
        self.reason = reason
        self.feature = feature
        self.record = record
        self.path = path

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return printable(f"{where}record {self.record}: feature {self.feature!r} {self.reason}")

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(SchemaError, self.reason, feature=self.feature, record=self.record)
        return partial(made, path=self.path), ()


class ManifestError(TFIOStoreError):
    """A manifest or index is unreadable, or contradicts its dataset."""


class NoRecordsError(TFIOStoreError, ValueError):
    """A source has no records to learn a schema from."""


class DataLossWarning(RuntimeWarning):
    """Damaged bytes of a file were skipped. It says how many, and the first reason."""


class ReplacedError(OSError):
    """A file is no longer the one that reading began with, or that its manifest means.

    Its errno is ESTALE, and its filename the path or URL. Open the source again to read what is
    there now.
    """


class UncertainCommitError(OSError):
    """The store did not say whether the dataset was published.

    Look again later, then call `clean`.
    """
