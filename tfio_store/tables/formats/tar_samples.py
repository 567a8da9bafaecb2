"""WebDataset's tar files: samples of several files that share a name up to its first dot."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfio_store.dataset.model import Dataset
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.texts import warn
from tfio_store.storage.store import OutputFile
from tfio_store.tables.formats.source_file import SourceFile, opened, unpacked
from tfio_store.tables.texts import as_json_value

KEY = "__key__"
"""The column that names a sample, as WebDataset calls it."""

_TEXT = {"txt", "text", "transcript", "json"}
_NUMBERS = {"cls", "cls2", "class", "count", "index", "inx", "id"}
"""The last parts of names that WebDataset decodes as text and as numbers."""

_SAMPLES, _BYTES = 4096, 16 << 20
"""A table holds so many at most."""

_BUFFER = 1 << 20

_LARGEST = 256 << 20
"""A sample has no more bytes, unless the file itself has: a small file can inflate to any size."""
_LONGEST_HEADER = 64 << 10
_MOST_SHARED = 1000
"""Headers that hold for all later members may have so many fields."""

Sample = dict[str, Any]


def read_samples(dataset: Dataset, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """The samples of all files as columns, some at a time. What a sample lacks is None.

    ValueError for what is no tar file, or a sample that has more than the first ones.
    """
    names = None if columns is None else list(columns)
    for file in opened(dataset):
        for samples in _grouped(_samples(file)):
            if names is None:
                names = sorted({name for sample in samples for name in sample})
            _check(names, samples, file.url, chosen=columns is not None)
            yield {name: [sample.get(name) for sample in samples] for name in names}


def _check(names: list[str], samples: list[Sample], url: str, *, chosen: bool) -> None:
    """Nothing is left out unless somebody said so."""
    for sample in samples:
        new = [name for name in sample if name not in names]
        if new and not chosen:
            raise ValueError(
                f"{url}: sample {sample[KEY]!r} has a part {new[0]!r}, and the first samples "
                "have none; pass columns= to name those to convert"
            )


def _grouped(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    group: list[Sample] = []
    nbytes = 0
    for sample in samples:
        group.append(sample)
        nbytes += sum(len(value) for value in sample.values() if isinstance(value, bytes | str))
        if len(group) >= _SAMPLES or nbytes >= _BYTES:
            yield group
            group, nbytes = [], 0
    if group:
        yield group


def _samples(file: SourceFile) -> Iterator[Sample]:
    most = min(max(_LARGEST, file.nbytes or 0), DEFAULT_MAX_RECORD_BYTES)
    sample: Sample = {}
    left_out = nbytes = 0
    with (
        file.decoded_as("a tar file", tarfile.TarError, OverflowError, RecursionError),
        tarfile.open(fileobj=unpacked(file), mode="r|", tarinfo=_Member, bufsize=_BUFFER) as tar,
    ):
        for member in tar:
            _check_headers(tar, member)
            key, part = _split(member.name)
            if not member.isfile() or not part or key.startswith("__"):
                left_out += not member.isdir()
                continue
            if sample and sample[KEY] != key:
                yield sample
                sample, nbytes = {}, 0
            sample[KEY] = key
            if part in sample:
                raise ValueError(f"{file.url}: sample {key!r} has two parts {part!r}")
            nbytes += tarfile.BLOCKSIZE + max(0, member.size)
            if nbytes > most:
                raise ValueError(
                    f"{file.url}: sample {key!r} has more than {most:,} bytes, which is too "
                    "much for a record; split it into smaller samples"
                )
            sample[part] = _value(_content(tar, member), part, f"{file.url}: {member.name}")
        _check_rest(tar)
    if sample:
        yield sample
    if left_out:
        warn(f"{file.url}: {left_out} members are no parts of samples, and are left out")


def _check_rest(tar: tarfile.TarFile) -> None:
    """What follows the mark of the end is empty, and read: a packed file ends with its checksum."""
    end = tar.offset
    while rest := tar.fileobj.read(_BUFFER):
        if rest.strip(b"\0"):
            raise tarfile.ReadError(
                f"it goes on behind the end of its archive at offset {end:,}; write each archive "
                "to a file of its own"
            )


def _split(name: str) -> tuple[str, str]:
    """``a/b.left.jpg`` is the part ``left.jpg`` of the sample ``a/b``."""
    folder, slash, file = name.removeprefix("./").rpartition("/")
    key, _, part = file.partition(".")
    return f"{folder}{slash}{key}", part.lower()


class _Member(tarfile.TarInfo):
    """A header that is refused before memory is taken for what it claims. One that is damaged is
    refused too: tarfile takes it for the end."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _Member:
        at = tarfile_.offset
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise  # zeros, which end an archive
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(
                f"{error} at offset {at:,}; it is damaged or was cut, copy it again"
            ) from error

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> _Member:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _HEADERS and not 0 <= found.size <= _LONGEST_HEADER:
            raise tarfile.ReadError(
                f"a header has {found.size:,} bytes, and at most {_LONGEST_HEADER:,} are read"
            )
        if found.type == tarfile.GNUTYPE_SPARSE:
            raise _sparse(found.name)
        return found

    def _proc_gnusparse_10(self, member: tarfile.TarInfo, *_: Any) -> None:
        # in place of tarfile's own, which reads a list of any length out of the file
        raise _sparse(member.name)


_HEADERS = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}


def _sparse(name: str) -> tarfile.ReadError:
    """Its size says nothing of what the file holds: a few bytes may be gigabytes of zeros."""
    return tarfile.ReadError(f"{name} is sparse; pack it without tar's --sparse")


def _check_headers(tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """Nothing grows with the number of members."""
    if member.issparse():
        raise _sparse(member.name)
    if len(tar.pax_headers) > _MOST_SHARED:
        raise tarfile.ReadError(f"its headers have more than {_MOST_SHARED} fields for all members")
    tar.members = []  # type: ignore[attr-defined]  # which keeps all, for a second pass


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def _value(data: bytes, part: str, where: str) -> bytes | str | int:
    kind = part.rpartition(".")[2]
    try:
        if kind in _NUMBERS:
            return int(data)
        return data.decode() if kind in _TEXT else data
    except ValueError as error:
        what = "number" if kind in _NUMBERS else "UTF-8 text"
        raise ValueError(f"{where}: holds no {what}, as its name says") from error


def write_samples(
    rows: Iterable[dict[str, Any]], file: OutputFile, *, compressed: bool = False
) -> int:
    """Write each row as a sample, and give their number. What is None is left out.

    ValueError for a name or a key that cannot name a file.
    """
    written, before = 0, None
    with tarfile.open(fileobj=file, mode="w|gz" if compressed else "w|", bufsize=_BUFFER) as tar:
        for row in rows:
            key = str(row.get(KEY, f"{written:09d}"))
            if not key or "." in key.rpartition("/")[2] or key == before:
                raise ValueError(
                    f"record {written}: {KEY} is {key!r}; it must differ from the one before, and "
                    "have no dot"
                )
            for name, value in row.items():
                if value is not None and name != KEY:
                    _add(tar, key, *_encoded(name, value))
            written, before = written + 1, key
    return written


def _encoded(name: str, value: Any) -> tuple[str, bytes]:
    """A file's ending, which says how WebDataset decodes it, and its content."""
    kind = name.rpartition(".")[2]
    if "/" in name or not name:
        raise ValueError(f"feature {name!r} cannot be the ending of a file's name")
    if isinstance(value, bytes):
        return name, value
    if isinstance(value, str):
        return (name if kind in _TEXT else f"{name}.txt"), value.encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return (name if kind in _NUMBERS else f"{name}.cls"), str(value).encode()
    return f"{name}.json", json.dumps(as_json_value(value)).encode()


def _add(tar: tarfile.TarFile, key: str, part: str, data: bytes) -> None:
    member = tarfile.TarInfo(f"{key}.{part}")  # of no user and no time: the same rows, one file
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))
