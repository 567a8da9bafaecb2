"""What the end of a file's name says: its format, whether gzip packs it, and what parts the fields
of its lines.
"""

from __future__ import annotations

import os
from typing import Any

from tfio_store.dataset.model import DatasetPart
from tfio_store.dataset.source import OneSource, is_one

__all__ = ["TABLES", "TFRECORD", "check_delimiter", "chosen_format", "is_packed", "usual_delimiter"]

TFRECORD = "tfrecord"
TABLES = ("parquet", "csv", "jsonl", "arrow")
_WRITTEN = (TFRECORD, *TABLES, "webdataset")
_READ = (*_WRITTEN, "images", "numpy")
_SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".tsv.gz": "csv",
    ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".ndjson": "jsonl", ".ndjson.gz": "jsonl",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".tar": "webdataset", ".tar.gz": "webdataset", ".tgz": "webdataset",
    ".npy": "numpy", ".npz": "numpy",
}  # fmt: skip


def chosen_format(given: str | None, name: Any, argument: str) -> str:
    """The format of a source or a target: the one that was ``given``, or that of its name."""
    known = _WRITTEN if argument == "target_format" else _READ
    if given is not None and given not in known:
        raise ValueError(f"{argument}={given!r}: pass one of {', '.join(map(repr, known))}")
    if given is not None:
        return given
    names = [name] if is_one(name) else name
    found = {_told(each) for each in names}
    if len(found) > 1:
        raise ValueError(f"source= names files of several formats: {', '.join(sorted(found))}")
    form = found.pop() if found else TFRECORD
    if form not in known:
        raise ValueError(f"{argument.partition('_')[0]}= names a {form} file, which is read only")
    return form


def is_packed(name: str) -> bool:
    """Whether a file of this name is packed by gzip."""
    return _plain(name).endswith((".gz", ".tgz"))


def check_delimiter(delimiter: str | None, *formats: str) -> None:
    """ValueError for one that CSV does not take, or where nothing is CSV."""
    if delimiter is None:
        return
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise ValueError(f'delimiter={delimiter!r}: pass one character, such as ";" or a tab')
    if "csv" not in formats:
        raise ValueError("delimiter= is for CSV, and neither side is CSV")


def usual_delimiter(name: str) -> str:
    """What parts the fields in a file of CSV, if nobody says it."""
    return "\t" if _plain(name).endswith((".tsv", ".tsv.gz")) else ","


def _told(source: OneSource) -> str:
    """The format by the end of a file's name. Parts are of datasets."""
    if isinstance(source, DatasetPart):
        return TFRECORD
    name = _plain(os.fspath(source))
    return next((form for suffix, form in _SUFFIXES.items() if name.endswith(suffix)), TFRECORD)


def _plain(name: str) -> str:
    if name.startswith(("http://", "https://")):  # in other names ? is a part of a pattern
        name = name.partition("?")[0]
    return name.lower()
