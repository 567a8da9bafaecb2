"""The open stores of this process: one for each set of arguments."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from tfio_store.storage.origin import Origin
from tfio_store.storage.process import PerProcess
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import Store

__all__ = ["Factory", "shared_store"]

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
            told = () if origin is None else (origin,)
            store = _stores[key] = checked(factory(scheme, options, retry, *told), scheme)
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
