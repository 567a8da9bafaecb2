"""The open stores of this process, and what their URLs and options say of the place."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tfio_store.storage.retry import Retry
from tfio_store.storage.store import Store
from tfio_store.storage.threads import PerProcess

__all__ = ["AzureOrigin", "Factory", "Origin", "options_of", "shared_store", "surroundings"]


# The parts of a URL beside the path: an account, a host, or the rest of a chain.
#
# A store's paths lack it. It is kept, so that a path becomes a URL again which opens the same
# place.


class Origin(Protocol):
    """Hashable and picklable."""

    def url(self, path: str) -> str:
        """The URL that opens this path. It may hold a password."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The text around a path: ``ftp://host`` before ``/a/b``, or ``zip://`` before ``a`` and
    ``::s3://bucket/x.zip`` behind it."""

    before: str = field(repr=False)  # which may hold a password
    after: str = field(repr=False)

    def url(self, path: str) -> str:
        return f"{self.before}{path}{self.after}"


@dataclass(frozen=True, slots=True)
class AzureOrigin:
    """The account of ``abfss://container@account.dfs.core.windows.net/name``."""

    scheme: str
    host: str

    def url(self, path: str) -> str:
        container, slash, name = path.partition("/")
        return f"{self.scheme}://{container}@{self.host}{slash}{name}"


def surroundings(url: str, path: str) -> Surroundings | None:
    """The text around ``path`` in ``url``. None if the path is not a part of it as it stands."""
    start = url.index("://") + len("://")
    ends = [found for mark in ("::", "?", "#") if (found := url.find(mark, start)) >= 0]
    for end in [*ends, len(url)]:  # names may hold those marks
        before = _before(url[start:end].rstrip("/"), path)
        if before is not None:
            return Surroundings(url[:start] + before, url[end:])
    return None


def _before(named: str, path: str) -> str | None:
    if not path.rstrip("/"):  # the root: a slash stands before what lies in it
        return named if path or not named else f"{named}/"
    path = path.rstrip("/")
    if named.endswith(path):
        return named.removesuffix(path)
    return "" if f"/{named}" == path else None  # some filesystems put a slash before all paths


# Finds the options of a caller's fsspec filesystem, with which `open_store` makes its own.


def options_of(filesystem: Any, scheme: str) -> dict[str, Any]:
    """The storage options of an fsspec ``filesystem``.

    If fsspec knows no class for ``scheme``, the filesystem's class now serves it. Raises TypeError
    if it is no fsspec filesystem, ValueError if it was made with positional arguments.
    """
    import fsspec

    if not isinstance(filesystem, fsspec.AbstractFileSystem):
        raise TypeError(f"filesystem: pass an fsspec filesystem, not {type(filesystem).__name__}")
    if filesystem.storage_args:
        raise ValueError(
            "filesystem: make it with keyword arguments only, so that it can be remade"
        )
    if scheme not in fsspec.available_protocols():
        fsspec.register_implementation(scheme, type(filesystem))
    return dict(filesystem.storage_options)


# The open stores of this process: one for each set of arguments.


Factory = Callable[..., Store]
"""Makes a store for (scheme, storage options, retry), and of some URLs a fourth, their `Origin`.
Importable by name, so that stores pickle."""

KEPT_STORES = 32
"""Stores stay open for the next caller. Beyond this many, the one unused for longest is dropped."""

MEMBERS = tuple(name for name in vars(Store) if not name.startswith("_"))

_stores: OrderedDict[Hashable, Store] = OrderedDict()
_lock = PerProcess(threading.Lock)


def shared_store(
    factory: Factory,
    scheme: str,
    options: Mapping[str, Any],
    retry: Retry,
    origin: Origin | None = None,
) -> Store:
    """The one store of this process for these arguments."""
    key = (factory, scheme, frozen(options), retry, origin)
    with _lock.here:
        store = _stores.get(key)
        if store is None:
            more = () if origin is None else (origin,)
            store = _stores[key] = checked(factory(scheme, options, retry, *more), scheme)
            if len(_stores) > KEPT_STORES:
                _stores.popitem(last=False)
        _stores.move_to_end(key)
    return store


def checked(store: Store, scheme: str) -> Store:
    """The store, which may be a plugin's, if it has all that readers and writers ask for."""
    # the class first: to ask the store for a property may begin something
    missing = [n for n in MEMBERS if not hasattr(type(store), n) and not hasattr(store, n)]
    if missing:
        raise TypeError(
            f"{scheme}:// URLs: {type(store).__module__}.{type(store).__qualname__} lacks "
            f"{', '.join(missing)}, which tfio_store.storage.Store asks for; install a version of "
            "its package that knows this version of tfio_store"
        )
    return store


def frozen(value: Any) -> Hashable:
    """Turn options into a dict key: equal for equal options, and different for objects that only
    look alike."""
    if isinstance(value, Mapping):
        return frozenset((key, frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    if isinstance(value, Hashable):
        return type(value), value
    return id(value)  # the store keeps it alive, so nothing else gets this id
