"""Errors of sources that name nothing that can be read: one text for each mistake, in every
door. Names that are alike are looked for only here, when something is an error already."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from itertools import islice

from tfio_store.dataset.names import committed
from tfio_store.dataset.source_names import Numbered, ShardGroup, grouped, has_magic
from tfio_store.storage import Store
from tfio_store.storage.redaction import redacted
from tfio_store.storage.store import names_in

_LONGEST = 300
"""Letters of a name that an error shows."""

_MISSING = 5
"""Shards that an error names."""

_ALIKE = 0.6
_SHOWN = 3
_LEVELS = 2
"""So many folders above the missing name are asked for names like it."""


class NotFound(Exception):
    """A source that is not there. The text is made once, when nothing else has this name."""

    def __init__(self, error: Callable[[], OSError]) -> None:
        super().__init__()
        self.error = error


def shown(name: str) -> str:
    """A name as errors show it: without secrets, and not endlessly long."""
    text = redacted(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def nothing_named(store: Store, path: str) -> OSError:
    """Nothing has this name, and no dataset."""
    words = f"{os.strerror(errno.ENOENT)}, and no dataset of this name{_did_you_mean(store, path)}"
    return FileNotFoundError(errno.ENOENT, words, store.url(path))


def no_match(store: Store, path: str, url: str) -> OSError:
    """Nothing matches a pattern."""
    words = f"no file matches this pattern{_did_you_mean(store, path)}"
    return FileNotFoundError(errno.ENOENT, words, shown(url))


def missing_shards(store: Store, stem: str, shards: Numbered, there: Iterable[int]) -> OSError:
    """Some shards are there, and some are not. ``stem``: the path before the numbers."""
    assert shards.count is not None
    found = set(there)
    missing = list(islice((n for n in range(shards.count) if n not in found), _MISSING))
    path = Numbered(stem, shards.count, shards.suffix).file(missing[0])
    return without_shards(store, path, shards.count, shards.count - len(found), missing)


def without_shards(
    store: Store, path: str, count: int, absent: int, first: Sequence[int]
) -> OSError:
    """Of ``count`` shards so many are ``absent``. ``first``: some of these; ``path``: the first."""
    which = ", ".join(map(str, first[:_MISSING])) + (" …" if absent > _MISSING else "")
    was, shard = ("is", "shard") if absent == 1 else ("are", "shards")
    words = f"{absent} of its {count} shards {was} missing: {shard} {which}"
    return FileNotFoundError(errno.ENOENT, words, store.url(path))


def ambiguous(url: str, names: Iterable[str]) -> ValueError:
    """A name that stands for several datasets."""
    return ValueError(f"{shown(url)}: stands for several datasets; name one of {_listed(names)}")


def unfinished(store: Store, path: str) -> OSError:
    """A writer left a claim, and no manifest. ``path``: the dataset's."""
    words = (
        "its writer is still at work, or died before it committed; clean() removes its files a "
        "day after its death, and clean(older_than=0) at once, if you know that none is at work"
    )
    return FileNotFoundError(errno.ENOENT, words, store.url(path))


def no_dataset_in(
    store: Store, folder: str, groups: list[ShardGroup], others: list[str]
) -> OSError:
    """A folder without a manifest, whose files are not one dataset by their names either."""
    url = store.url(folder).rstrip("/")
    by_tensorflow = saved_by_tensorflow(store, folder)
    if by_tensorflow:
        words = by_tensorflow
    elif groups:
        listed = _listed(f"{url}/{group.said}" for group in groups)
        words = f"is a folder without a manifest; name some of its files: {listed}"
    elif others:
        words = f"is a folder without a manifest; name its files, for example {url}/*"
    else:
        below = [name for name in names_in(store, folder, "") if name.endswith("/")]
        inside = _or(f"{url}/{name.rstrip('/')}" for name in sorted(below)[:_SHOWN])
        words = "is a folder without files of records"
        words += f"; did you mean {inside}?" if inside else ""
    return IsADirectoryError(errno.EISDIR, words, url)


_TF_SAVED = {"snapshot.metadata", "dataset_spec.pb"}
"""Files of a folder that ``tf.data.Dataset.save`` writes."""


def saved_by_tensorflow(store: Store, folder: str) -> str:
    """What the folder is, and how it is brought over; "" if ``Dataset.save`` did not write it."""
    if not any(name in names_in(store, folder, name) for name in _TF_SAVED):
        return ""
    return (
        "was written by TensorFlow's Dataset.save; bring it over in Python: "
        "tfs.save(tf.data.Dataset.load(path), new_path)"
    )


def _listed(names: Iterable[str]) -> str:
    listed = list(islice(names, 11))
    return ", ".join(listed[:10]) + (", …" if len(listed) > 10 else "")


# --- did you mean ---------------------------------------------------------------------------------


def _did_you_mean(store: Store, path: str) -> str:
    """ " (did you mean …?)" or ""."""
    folder, _, wanted = _plain_part(path).rstrip("/").rpartition("/")
    rest = ""
    for _ in range(_LEVELS):
        names = names_in(store, folder, wanted[:2])
        if rest and f"{wanted}/" in names:
            return ""  # the folder is right, and empty
        if names:
            alike = _alike(wanted, _candidates(names, folders=bool(rest)))
            if rest:
                alike = _leading_on(store, folder, alike, rest)
            found = _or(store.url(f"{folder}/{name}") for name in alike)
            return f" (did you mean {found}?)" if found else ""
        if "/" not in folder.strip("/"):
            break
        folder, _, below = folder.rpartition("/")
        wanted, rest = below, f"/{wanted}{rest}"
    return ""


def _leading_on(store: Store, folder: str, alike: list[str], rest: str) -> list[str]:
    """Those of these folders in which the rest of the path, or what begins as it, is; with it. Or
    else these folders."""
    first = rest.split("/")[1]
    there = [
        f"{name}{rest}"
        for name in alike
        if any(
            below.lstrip("_").startswith(first)
            for below in names_in(store, f"{folder}/{name}", first)
        )
    ]
    return there or alike


def _plain_part(path: str) -> str:
    """The part of a path before its first folder or name with a pattern."""
    return re.split(r"[*?\[{]", path, maxsplit=1)[0] if has_magic(path) else path


def _candidates(names: list[str], *, folders: bool) -> list[str]:
    """The names in a folder that may have been meant."""
    if folders:
        return [name.rstrip("/") for name in names if name.endswith("/")]
    datasets = committed(names)
    groups, others = grouped(name for name in names if not name.endswith("/"))
    said = [group.said for group in groups if not _is_of(group, datasets)]
    inside = [name[:-1] for name in names if name.endswith("/") and name[0] not in "_."]
    return list(dict.fromkeys([*datasets, *said, *others, *inside]))


def _is_of(group: ShardGroup, datasets: list[str]) -> bool:
    return group.shards is not None and group.shards.prefix in datasets


def _alike(wanted: str, names: Iterable[str]) -> list[str]:
    """The names most like the wanted one, the best first."""
    low = wanted.lower()
    rated = []
    for name in names:
        pairs = ((low, name.lower()), (low, _stem(name)), (_stem(wanted), _stem(name)))
        best = max(SequenceMatcher(None, *pair).ratio() for pair in pairs)
        if low and name.lower().startswith(low):
            best += 1
        if best >= _ALIKE and name != wanted:
            rated.append((-best, name))
    return [name for _, name in sorted(rated)[:_SHOWN]]


def _stem(name: str) -> str:
    """The part before the number of shards, or the kind of file."""
    return re.split(r"@|-?\*|\.", name.lower(), maxsplit=1)[0]


def _or(names: Iterable[str]) -> str:
    *before, last = list(names) or [""]
    return f"{', '.join(before)} or {last}" if before else last
