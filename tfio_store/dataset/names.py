"""Names of a dataset's objects, and which shard a record goes to. No I/O.

A dataset ``train`` consists of (relative to its folder)::

    train-00000-of-00016.tfrecord …            shards of the first generation, and copies
    train-3f9a1c8e0b52-00000-of-00016.tfrecord … those of a later one: overwritten, appended, or
                                               begun while the plain names were not free
    _train-00000-of-00016.tfrecord.3f9a1c8e …  the same until they are published
    _train-00000-of-00016.tfrecord.56b91b60-283c-old … replaced ones, for who has opened them
    _train.index, _train.index.3f9a1c8e        the list of shards, and their block tables
    _train.claim, _train.claim.3f9a1c8e        a writer at work (see `tfio_store.write.claim`)
    _train.manifest.json                       the commit

Tagged names begin with ``_`` and end in the tag, so neither ``train-*`` nor ``*.tfrecord``
ever sweeps up the shards of two generations, or of an unfinished one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from string import Formatter

from tfio_store.dataset.checks import check_name, check_positive
from tfio_store.storage.aside import ASIDE, facts_of
from tfio_store.storage.redaction import redacted

FIXED_TEMPLATE = "{name}-{shard:05d}-of-{num_shards:05d}.tfrecord"
ROLLING_TEMPLATE = "{name}-{shard:05d}.tfrecord"

MANIFEST_SUFFIX = ".manifest.json"

DEFAULT_SHARD_BYTES = 256 << 20
"""The default size at which shards roll over: large enough to read fast, small enough to share
out."""

LONGEST_TEMPLATE = 255

_INFIX = "(?:-[0-9a-f]{12})?"
"""A tag behind the dataset's name, in the plain names of all generations but the first."""

_TAG = rf"([0-9a-f]{{12}})(?:-[0-9a-f]{{8}}|-[0-9a-f]{{16}})?(?:{ASIDE})?"


def new_tag() -> str:
    """Draw 48 random bits in hex, for names that no other writer has."""
    return secrets.token_hex(6)


def new_attempt() -> str:
    """Draw 64 random bits in hex, for names that no other attempt of a job has, of a million."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class DatasetNames:
    """The names of one dataset's objects, relative to its folder.

    ``template`` takes ``{name}``, ``{shard}`` and, where the number of shards is known when writing
    begins, ``{num_shards}``, each with a format such as ``:05d``. ``num_shards`` is None for
    shards that roll over.
    """

    name: str
    num_shards: int | None = None
    template: str = ""

    def __post_init__(self) -> None:
        name = self.name
        if not name or name[0] in "_." or re.search(r"[\x00-\x1f\x7f/\\*?\[\]:#%]", name):
            raise ValueError(
                "a dataset's URL must end in its name, such as s3://bucket/folder/train; "
                f"{redacted(name)!r} is empty, begins with '_' or '.', or has one of "
                "/ \\ * ? [ ] : # % in it"
            )
        if not self.template:
            chosen = ROLLING_TEMPLATE if self.num_shards is None else FIXED_TEMPLATE
            object.__setattr__(self, "template", chosen)
        _check_template(self)

    @property
    def manifest(self) -> str:
        return manifest_name(self.name)

    def index(self, tag: str | None) -> str:
        return _with_tag(f"_{self.name}.index", tag)

    def index_try(self, tag: str) -> str:
        """The index name of one try to commit. All tries share ``tag``."""
        return self.index(f"{tag}-{secrets.token_hex(4)}")

    def is_index(self, filename: str) -> bool:
        """Whether it is the name of an object of an index."""
        return re.fullmatch(rf"_{re.escape(self.name)}\.index(\.{_TAG})?", filename) is not None

    def claim(self, tag: str | None) -> str:
        return _with_tag(f"_{self.name}.claim", tag)

    def shard(self, shard: int, tag: str | None) -> str:
        plain = self.template.format(name=self.name, shard=shard, num_shards=self.num_shards)
        return f"_{plain}.{tag}" if tag else plain

    def attempt(self, shard: int, tag: str, attempt: str | None = None) -> str:
        """The name of one attempt at a shard. All attempts share ``tag``. ``attempt``: that of
        an attempt at several shards. If None, it is drawn."""
        return self.shard(shard, f"{tag}-{attempt or secrets.token_hex(4)}")

    def shard_of(self, attempt: str) -> str:
        """The plain name behind a tagged one."""
        return attempt.removeprefix("_").rpartition(".")[0]

    def is_plain_shard(self, filename: str) -> bool:
        """Whether a writer with any number of shards could have named it so, without a tag."""
        return re.fullmatch(self._pattern(), filename) is not None

    def tagged_plain(self, tag: str) -> DatasetNames:
        """Names whose shards have a tag, and are found by globs all the same."""
        return replace(self, template=self.template.replace("{name}", f"{{name}}-{tag}", 1))

    def like(self, template: str | None, num_shards: int = 1) -> DatasetNames:
        """The same dataset's names by another template. ValueError if it is no template."""
        count = num_shards if template is not None and "{num_shards" in template else None
        return DatasetNames(self.name, count, template or "")

    def may_own(self, filename: str) -> bool:
        """Whether some template could have made this name of a shard, or it is an index: it has the
        dataset's name in it, and if it begins with ``_`` a tag behind it."""
        if self.name not in filename or "/" in filename:
            return False
        if filename.startswith("_"):
            tagged = filename == self.index(None) or re.search(rf"\.{_TAG}\Z", filename)
            return bool(tagged) or facts_of(filename) is not None
        return not filename.startswith(".")

    def tag_of(self, filename: str) -> str | None:
        """The tag of a tagged shard, index or claim of this dataset; "" when it is one without a
        tag; None when the name is none of this dataset's."""
        own = rf"_{re.escape(self.name)}\.(?:index|claim)"
        plain = self._pattern()
        if re.fullmatch(f"{own}|{plain}", filename):
            return ""
        tagged = re.fullmatch(rf"(?:{own}|_{plain})\.{_TAG}", filename)
        return tagged.group(1) if tagged else None

    def _pattern(self) -> str:
        fields = {"name": f"{re.escape(self.name)}{_INFIX}"}
        return "".join(
            re.escape(literal) + ("" if field is None else fields.get(field, "[0-9]{1,20}"))
            for literal, field, _, _ in Formatter().parse(self.template)
        )


def hidden_tag(filename: str) -> str | None:
    """The tag of a shard that is not published; None for any other name."""
    found = re.search(rf"\.{_TAG}\Z", filename) if filename.startswith("_") else None
    return None if found is None or filename.endswith(ASIDE) else found[1]


def manifest_name(name: str) -> str:
    """The file name of the manifest of the dataset ``name``."""
    return f"_{name}{MANIFEST_SUFFIX}"


def committed(names: Iterable[str]) -> list[str]:
    """The datasets whose manifests are among these file names."""
    ours = (name for name in names if name.startswith("_") and name.endswith(MANIFEST_SUFFIX))
    return [name[1:].removesuffix(MANIFEST_SUFFIX) for name in ours]


def begun(names: Iterable[str]) -> list[str]:
    """The datasets whose writers' claims are among these file names. A folder's ends in "/"."""
    claims = (name for name in names if name.startswith("_") and ".claim" in name)
    found = (name[1:].partition(".claim")[0] for name in claims if not name.endswith("/"))
    return list(dict.fromkeys(found))


def index_name(manifest: str) -> str:
    """The usual name of the index that belongs to the manifest of this file name."""
    return manifest.removesuffix(MANIFEST_SUFFIX) + ".index"


def split_url(url: str) -> tuple[str, str]:
    """A dataset's URL (or path) as its folder and its name."""
    folder, _, name = url.rpartition("/")
    return folder, name


def _with_tag(name: str, tag: str | None) -> str:
    return f"{name}.{tag}" if tag else name


def _check_template(names: DatasetNames) -> None:
    """Templates also come from claims and manifests. None of them may build endless names or
    searches."""
    if len(names.template) > LONGEST_TEMPLATE:
        raise ValueError(f"shard_template has {len(names.template)} letters, over the limit")
    parsed = [part for part in Formatter().parse(names.template) if part[1] is not None]
    fields = sorted(field for _, field, _, _ in parsed if field is not None)
    optional = [] if names.num_shards is None else ["num_shards"]
    if fields not in (["name", "shard"], sorted(["name", "shard", *optional])):
        raise ValueError(
            f"shard_template must have {{name}} and {{shard}} in it once, and no field but "
            f"{', '.join(['name', *optional, 'shard'])}; not {names.template!r}"
        )
    for _, field, spec, conversion in parsed:
        allowed = "" if field == "name" else "(0?([1-9]|1[0-9]|20))?d?"
        if conversion is not None or not re.fullmatch(allowed, spec or ""):
            raise ValueError(
                f"shard_template {names.template!r}: {{{field}}} takes "
                + ("no format" if field == "name" else "a width of at most 20, such as :05d")
            )
    try:
        first, second = names.shard(0, None), names.shard(12345, None)
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"shard_template {names.template!r} does not format: {error}") from error
    plain = names.is_plain_shard(first) and names.is_plain_shard(second)
    if first == second or not plain or "/" in first or first[0] in "_.":
        raise ValueError(
            f"shard_template must give each shard a file name of its own that does not begin with "
            f"'_' or '.'; {names.template!r} gives {first!r} and {second!r}"
        )
    try:
        check_name(first)
    except ValueError as error:
        raise ValueError(
            f"shard_template {names.template!r} makes names that no manifest holds: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class RollOver:
    """Says when a shard is full: before a record that would carry it over a limit."""

    max_bytes: int | None = None
    """Framed bytes before compression. They are known as records come, so every run cuts alike."""
    max_records: int | None = None

    def __post_init__(self) -> None:
        for argument, value in (
            ("max_shard_bytes", self.max_bytes),
            ("max_shard_records", self.max_records),
        ):
            if value is not None:
                check_positive(argument, value)

    def full(self, nbytes: int, records: int) -> bool:
        """Whether ``nbytes`` and ``records``, both with the next record, are too many."""
        return (self.max_bytes is not None and nbytes > self.max_bytes) or (
            self.max_records is not None and records > self.max_records
        )
