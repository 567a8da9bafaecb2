"""The grammar of source names, the same for everything that takes a source, and which files are the
shards of one dataset by their names. No I/O.

========================= =========================================================================
``name@16``, ``@16.gz``   the shards ``name-00000-of-00016`` …; with what follows the number behind
``name@*``, ``@*.gz``     the shards, however many there are
``a,b``                   several names
``x{a,b}y``, ``x{0..7}y`` several names, as in a shell: ``{00..15}`` keeps the width, ``{0..8..2}``
                          counts by twos, and braces may lie in braces
``*``, ``?``, ``[0-3]``   any letters, one letter, one of these letters, within a folder
``**``                    any letters, across folders
``tfrecord:name``         a name as YDF writes it, also ``tfrecordv2+gz:``, ``tfrecord+tfe:`` …
========================= =========================================================================

They are looked for in this order: the kind of file, commas, braces, ``@``, patterns. A letter in
brackets stands for itself, as in fsspec's and Python's globs: ``a[,]b``, ``train[@]16``, ``x[*]``.
`step` takes one of these steps, and whoever asks first looks whether something has the name as it
stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain, product

from tfio_store.storage.redaction import redacted

MOST_NAMES = 100_000
"""So many names at most come of the braces of one name."""

_MOST_DEPTH = 50
"""Levels of braces in braces."""

_MOST_LETTERS = 64 << 20
"""Characters of all names together that come of one."""

_ANY = re.compile(r"[@,{*?\[]|^tfrecord[a-z0-9+-]*:")
_KIND = re.compile(r"tfrecord(?:v2)?(?:\+gz)?(?:\+tfe)?:|tfrecord-nocompression:")
_NUMBER = re.compile(r"(\*|0*[1-9][0-9]{0,17})(\.[^/]+)?")
_RANGE = re.compile(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})(?:\.\.(-?[0-9]{1,18}))?")
_LETTERS = re.compile(r"(?:([a-z])\.\.([a-z])|([A-Z])\.\.([A-Z]))(?:\.\.(-?[0-9]{1,18}))?")
_QUERY = re.compile(r"(?is)(?:.*::)?https?://[^?]*\?")
_HOST_ALONE = re.compile(r"(?!memory:|file:|local:)[\w+.-]+://[^/]*")
_SHARD = re.compile(r"(?s)(.+)-([0-9]{5,20})-of-([0-9]{5,20})(\.[^/]*)?")


class Stage(IntEnum):
    """How far a name was taken apart: what a step has found is not looked for again."""

    WHOLE = 0
    LISTED = 1
    """One name of a list with commas."""
    SINGLE = 2
    """One name of those that braces make."""


@dataclass(frozen=True, slots=True)
class Names:
    """Several names, each of which may be taken apart from ``stage`` on."""

    names: tuple[str, ...]
    stage: Stage


@dataclass(frozen=True, slots=True)
class Numbered:
    """The shards of one dataset: ``prefix-00000-of-00016suffix`` and so on."""

    prefix: str
    count: int | None
    """None: however many there are."""
    suffix: str
    """The text after the numbers: "", or a dot and more."""

    def file(self, shard: int) -> str:
        """The name of one shard, as DeepVariant and YDF make it. Needs a count."""
        assert self.count is not None
        width = max(5, len(str(self.count)))
        return f"{self.prefix}-{shard:0{width}d}-of-{self.count:0{width}d}{self.suffix}"

    def said(self, count: int | None = None, suffix: str | None = None) -> str:
        """The name, as people write it."""
        number = self.count if count is None else count
        behind = self.suffix if suffix is None else suffix
        return f"{self.prefix}@{'*' if number is None else number}{behind}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob."""

    text: str


Step = Names | Numbered | Pattern


def step(name: str, stage: Stage = Stage.WHOLE) -> Step | None:
    """The names that a name stands for if no file has it. None: itself alone.

    ValueError for a list with an empty name, and for braces that make more than `MOST_NAMES`.
    """
    if _ANY.search(name) is None or _has_query(name):
        return None
    kind = _KIND.match(name)
    if kind is not None and stage < Stage.SINGLE and len(name) > kind.end():
        # the kind of file stands before the whole list, or before each name of it
        return Names((name[kind.end() :],), stage)
    if stage < Stage.LISTED and "," in name:
        names = tuple(_split(name))
        if len(names) > 1:
            if not all(names):
                raise ValueError("has an empty name between its commas")
            return Names(names, Stage.LISTED)
    if stage < Stage.SINGLE and "{" in name:
        braced = _Braces(name)
        if braced.count * len(name) > _MOST_LETTERS:
            raise ValueError(f"has braces that make {braced.count} names of this length")
        names = tuple(braced.names())
        if names != (name,):
            return Names(names, Stage.SINGLE)
    shards = numbered(name)
    if shards is not None:
        globbed = has_magic(shards.prefix) or has_magic(shards.suffix)
        return Pattern(as_pattern(shards)) if globbed else shards
    return Pattern(name) if has_magic(name) else None


def is_pattern(name: str) -> bool:
    """Whether a name is nothing but a pattern, which may match no file."""
    meaning = step(name)
    return isinstance(meaning, Pattern) and meaning.text == name


def has_magic(name: str) -> bool:
    """Whether a name is a glob."""
    return any(letter in name for letter in "*?[")


def numbered(name: str) -> Numbered | None:
    """``name@16.gz`` or ``name@*``, taken apart; None for any other name."""
    prefix, _, number = name.rpartition("@")
    found = _NUMBER.fullmatch(number) if prefix else None
    if found is None or prefix.endswith("/") or _HOST_ALONE.fullmatch(prefix):
        return None
    return Numbered(prefix, None if found[1] == "*" else int(found[1]), found[2] or "")


def numbered_target(
    url: str | os.PathLike[str], num_shards: int | None, template: str = ""
) -> tuple[str | os.PathLike[str], int | None, str]:
    """The parts of ``name@16.gz`` for a writer: the dataset's URL, the number of its shards, and
    the template of their names. Any other URL comes back with the arguments as they are.

    ValueError if the number or the template contradicts an argument.
    """
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else None
    shards = numbered(text) if isinstance(text, str) else None
    if shards is None:
        return url, num_shards, template
    said = redacted(shards.said())
    if shards.count is None:
        raise ValueError(f"{said}: say how many shards to write, such as name@16")
    if num_shards not in (None, shards.count):
        raise ValueError(f"{said} has {shards.count} shards, and num_shards= is {num_shards}")
    if shards.suffix and template:
        raise ValueError(f"{said} says how shards are named, and so does shard_template=")
    if shards.suffix not in ("", ".tfrecord"):
        behind = shards.suffix.replace("{", "{{").replace("}", "}}")
        template = f"{{name}}-{{shard:05d}}-of-{{num_shards:05d}}{behind}"
    return shards.prefix, shards.count, template


def refuse_number(url: object) -> None:
    """ValueError for ``name@16`` where tasks decide how many shards they write."""
    shards = numbered(os.fspath(url)) if isinstance(url, str | os.PathLike) else None
    if shards is not None:
        raise ValueError(
            f"{redacted(shards.said())}: tasks write shards of their own, so their number is not "
            f"to choose; write to {redacted(shards.prefix)}"
        )


def as_pattern(shards: Numbered) -> str:
    """A glob that finds these shards. What precedes the number may be a glob itself."""
    if shards.count is None:
        return f"{shards.prefix}-*-of-*{shards.suffix}"
    width = max(5, len(str(shards.count)))
    return f"{shards.prefix}-{'?' * width}-of-{shards.count:0{width}d}{shards.suffix}"


def shard_number(filename: str) -> tuple[str, int, int, str] | None:
    """``name-00003-of-00016.gz`` as ("name", 3, 16, ".gz"). None for any other name, and for a
    number beyond the last."""
    found = _SHARD.fullmatch(filename)
    if found is None or int(found[2]) >= int(found[3]):
        return None
    return found[1], int(found[2]), int(found[3]), found[4] or ""


def renumbered(filename: str, shard: int) -> str:
    """The name of another shard of the dataset that a `shard_number` has."""
    found = _SHARD.fullmatch(filename)
    assert found is not None
    return f"{found[1]}-{shard:0{len(found[2])}d}-of-{found[3]}{found[4] or ''}"


def _has_query(name: str) -> bool:
    """Whether it is a web address with a query, in which every letter stands for itself."""
    return "?" in name and "://" in name and _QUERY.match(name) is not None


# --- braces and commas ----------------------------------------------------------------------------


def _open_letters(text: str) -> Iterator[tuple[int, str]]:
    """The letters that are in no brackets, and where each stands."""
    at, last = 0, text.rfind("]")
    while at < len(text):
        if text[at] == "[":
            first = at + 2 if text.startswith("!", at + 1) else at + 1
            if first < last:
                at = text.index("]", first + 1) + 1  # a "]" that comes first stands for itself
                continue
        yield at, text[at]
        at += 1


def _closed_braces(text: str) -> dict[int, int]:
    """Where each brace opens that is closed, and where it closes."""
    closed: dict[int, int] = {}
    opened: list[int] = []
    for at, letter in _open_letters(text):
        if letter == "{":
            opened.append(at)
        elif letter == "}" and opened:
            closed[opened.pop()] = at
    return closed


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets, and in no braces that are closed."""
    closed, parts, start, inside = _closed_braces(text), [], 0, 0
    for at, letter in _open_letters(text):
        if at < inside:
            continue
        if at in closed:
            inside = closed[at]
        elif letter == ",":
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Numbers or letters from one to another, as ``{0..7}`` has them."""

    codes: range
    width: int
    """The digits of numbers with leading zeros. 0 for letters."""

    @property
    def count(self) -> int:
        return len(self.codes)

    def names(self) -> Iterator[str]:
        if self.width == 0:
            return map(chr, self.codes)
        return (f"{code:0{self.width}d}" for code in self.codes)


class _Braces:
    """A text with braces: parts that follow each other, each with its choices."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if depth > _MOST_DEPTH:
            raise ValueError(f"has braces in braces, more than {_MOST_DEPTH} deep")
        self._parts: list[str | tuple[_Braces | _Counted, ...]] = []
        self.count = 1
        closed, start = _closed_braces(text), 0
        for at in sorted(closed):
            if at < start:
                continue
            choices = _choices(text[at + 1 : closed[at]], depth)
            if choices is not None:
                self._parts.append(text[start:at])
                self._add(choices)
                start = closed[at] + 1
        self._parts.append(text[start:])

    def _add(self, choices: tuple[_Braces | _Counted, ...]) -> None:
        self.count *= sum(each.count for each in choices)
        if self.count > MOST_NAMES:
            raise ValueError(
                f"has braces that make {self.count} names or more; {MOST_NAMES} is the most"
            )
        self._parts.append(choices)

    def names(self) -> Iterator[str]:
        choices = [
            [part] if isinstance(part, str) else list(chain.from_iterable(c.names() for c in part))
            for part in self._parts
        ]
        return map("".join, product(*choices))


def _choices(text: str, depth: int) -> tuple[_Braces | _Counted, ...] | None:
    """The items between two braces. None if that is neither a list nor a range."""
    parts = _split(text)
    if len(parts) > 1:
        return tuple(_Braces(part, depth + 1) for part in parts)
    counted = _numbers(text) or _letters(text)
    return None if counted is None else (counted,)


def _numbers(text: str) -> _Counted | None:
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    padded = any(re.match("-?0[0-9]", end) for end in (found[1], found[2]))
    width = max(len(found[1]), len(found[2])) if padded else 1
    return _Counted(_between(int(found[1]), int(found[2]), found[3]), width)


def _letters(text: str) -> _Counted | None:
    found = _LETTERS.fullmatch(text)
    if found is None:
        return None
    first, last = found[1] or found[3], found[2] or found[4]
    return _Counted(_between(ord(first), ord(last), found[5]), 0)


def _between(first: int, last: int, by: str | None) -> range:
    """From the first to the last one, up or down, as they stand."""
    size = abs(int(by or 1)) or 1
    return range(first, last + 1, size) if first <= last else range(first, last - 1, -size)


# --- the files that are the shards of one dataset -------------------------------------------------
#
# Files that differ in one number only are shards of one dataset, in the order of that number:
# ``train-00000-of-00016.gz`` (TensorFlow, DeepVariant, YDF), ``train-0.tfr`` (Basenji),
# ``part-00000-c2f0-c000.tfrecord`` (Spark). Numbers that could mean something else, as in
# ``cifar10.tfrecord`` and ``cifar100.tfrecord``, make no shards.


_RECORDS = re.compile(r"(?i)tf[-_.]?rec|\.tfr\b|^part-(?:r-)?[0-9]{5}")
"""Names of files of records, but for those that are numbered as shards."""

_ABOUT = re.compile(
    r"(?i)\.(json|txt|md|rst|csv|tsv|xml|html?|ya?ml|toml|pbtxt|proto|log|py|ipynb|pickle|pkl|npy|npz"
    r"|parquet|png|jpe?g|pdf|sh|md5|sha1|sha256|crc|idx|index)\Z"
)
"""Names of files that stand beside records, and are none."""


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Files that are shards of one dataset by their names, in order."""

    files: tuple[str, ...]
    said: str
    """How to name all of them: ``train@16.gz``, ``train-*.tfr``, or the name of the only one."""
    shards: Numbered | None = None
    """If their names say how many there are. Some may be missing then."""

    @property
    def missing(self) -> int:
        """How many are known to be missing."""
        return 0 if self.shards is None else (self.shards.count or 0) - len(self.files)


def is_about_data(filename: str) -> bool:
    """Whether a file describes records, by its name, and holds none."""
    return _ABOUT.search(filename) is not None


def grouped(filenames: Iterable[str]) -> tuple[list[ShardGroup], list[str]]:
    """The datasets among the files of a folder, and those files of which the names say nothing.

    Hidden files (``_``, ``.``) and those beside records (``.json``, ``.txt`` …) are left out.
    """
    counted: dict[Numbered, list[str]] = {}
    alike: dict[str, list[str]] = {}
    others: list[str] = []
    for name in filenames:
        if name.startswith(("_", ".")) or is_about_data(name):
            continue
        shard = shard_number(name)
        if shard is not None:
            counted.setdefault(Numbered(shard[0], shard[2], shard[3]), []).append(name)
        elif _RECORDS.search(name):
            alike.setdefault(re.sub("[0-9]+", "0", name), []).append(name)
        else:
            others.append(name)
    groups = [
        ShardGroup(tuple(sorted(names, key=_number)), shards.said(), shards)
        for shards, names in counted.items()
    ]
    for names in alike.values():
        groups += _differing(names)
    return sorted(groups, key=lambda group: group.said), sorted(others)


def _number(name: str) -> int:
    found = shard_number(name)
    assert found is not None
    return found[1]


def _differing(names: list[str]) -> list[ShardGroup]:
    """One group if the names differ in one number only, or else a group for each."""
    numbers = {name: re.findall("[0-9]+", name) for name in names}
    columns = list(zip(*numbers.values(), strict=True))
    varying = [at for at, column in enumerate(columns) if len(set(column)) > 1]
    if len(varying) != 1 or not _count_up([found[varying[0]] for found in numbers.values()]):
        return [ShardGroup((name,), name) for name in names]
    at = varying[0]
    ordered = sorted(names, key=lambda name: (int(numbers[name][at]), name))
    before, behind = _around(ordered[0], at)
    return [ShardGroup(tuple(ordered), f"{before}*{behind}")]


def _count_up(numbers: list[str]) -> bool:
    """Whether these are numbers of shards: all from 0 or 1 on, or wide ones with leading zeros."""
    wide = len({len(number) for number in numbers}) == 1 and min(numbers).startswith("000")
    values = sorted(map(int, numbers))
    return wide or values in (list(range(len(values))), list(range(1, len(values) + 1)))


def _around(name: str, number: int) -> tuple[str, str]:
    """The text before and behind one of the numbers of a name."""
    place = list(re.finditer("[0-9]+", name))[number]
    return name[: place.start()], name[place.end() :]
