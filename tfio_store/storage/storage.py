"""`Storage`: how storage is reached. It is made once, and handed on whole."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfio_store.records.texts import html_table
from tfio_store.storage.cache import LocalCache, cache_of
from tfio_store.storage.redaction import redacted
from tfio_store.storage.resolve import check_backend, open_store
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import Store

__all__ = ["Storage", "check_storage", "for_writing", "given_storage", "with_index_dir"]

_BUCKET = re.compile("(?:s3a?|gcs|gs)://([^/]+)/")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Storage:
    """How storage is reached: options, retries, backend and cache.

    Make it once, and pass it as ``storage=``. If you have only options, ``storage_options=`` is the
    short form. It never changes, and it pickles with its credentials. Its ``repr`` shows the names
    of options, but no values.

    Args:
        options (dict | None): Options of the storage's fsspec class, as in the example. Default
            None: fsspec finds the credentials, for example in the environment.
        retry (Retry | None): How long, and how patiently, requests are repeated after passing
            faults of the storage. Default None: ``Retry()``.
        backend (str): The client that reads S3, GCS and Azure. "auto" (default): obstore if it is
            installed and can honour the options, otherwise fsspec. "obstore": the same, with an
            error if it is not installed, and a warning in the log for each bucket that fsspec
            reads. "fsspec": never obstore. fsspec always writes.
        cache (str | PathLike | LocalCache | None): A folder on a local disk that keeps what readers
            fetch from distant stores, for later epochs and for other processes; see `LocalCache`.
            Default None.
        index_dir (str | PathLike | None): A folder, or its URL, for the indexes of compressed files
            beside which nothing can be written; see `build_index`. Default None.

    Raises:
        TypeError: An argument is of another type.
        ValueError: There is no such backend, or the cache's path is a URL.
        OSError: The cache's folder cannot be written to.

    Example:
        >>> storage = tfs.Storage({"anon": True}, retry=tfs.Retry(attempts=3))
        >>> reader = tfs.RecordReader("s3://b/train", storage=storage)  # doctest: +SKIP
        >>> tfs.Storage({"key": "…", "secret": "…"}, backend="fsspec")
        Storage({'key': ..., 'secret': ...}, backend='fsspec')
    """

    options: Mapping[str, Any] | None = field(hash=False)
    retry: Retry | None
    backend: str
    cache: LocalCache | None
    index_dir: str | None
    _of_buckets: dict[str, Store] = field(init=False, compare=False)
    """The stores that were found. They hold connections, and do not pickle with this."""
    _cached: dict[int, Store] = field(init=False, compare=False)
    """What reads each of them through the cache, and keeps it alive, by its id."""

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        retry: Retry | None = None,
        backend: str = "auto",
        cache: str | os.PathLike[str] | LocalCache | None = None,
        index_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        check_options(options, "options")
        if retry is not None and not isinstance(retry, Retry):
            raise TypeError(f"retry= takes a tfio_store.Retry, not {type(retry).__name__}")
        check_backend(backend)
        kept = None if cache is None else cache_of(cache)
        if kept is not None:
            from tfio_store.storage.cache.folder import folder_of

            folder_of(kept)
        _fill(self, dict(options or {}) or None, retry, backend, kept, check_index_dir(index_dir))

    def __reduce__(self) -> tuple[Any, ...]:
        # not __getstate__, which Python 3.10 replaces by one that takes the connections along
        return _unpickled, (self.options, self.retry, self.backend, self.cache, self.index_dir)

    def __repr__(self) -> str:
        names = ", ".join(f"{name!r}: ..." for name in self.options or ())
        shown = [f"{{{names}}}"] if names else []
        shown += [] if self.retry is None else [f"retry={self.retry}"]
        shown += [] if self.backend == "auto" else [f"backend={self.backend!r}"]
        shown += [] if self.cache is None else [f"cache={self.cache}"]
        shown += [] if self.index_dir is None else [f"index_dir={redacted(self.index_dir)!r}"]
        return f"Storage({', '.join(shown)})"

    def _repr_html_(self) -> str:
        rows = [
            ("options", ", ".join(self.options or ()) or "none: the client finds them"),
            ("retry", Retry() if self.retry is None else self.retry),
            ("backend", self.backend),
            ("cache", "none" if self.cache is None else self.cache),
        ]
        return html_table("Storage", rows)

    def open(self, url: str | os.PathLike[str]) -> tuple[Store, str]:
        """Find the store that keeps a URL.

        Args:
            url (str | PathLike): See `tfio_store.storage.open_store`.

        Returns:
            tuple[Store, str]: The store, and the object's path in it.

        Example:
            >>> store, path = tfs.Storage().open("memory://folder/x")
            >>> store.url(path)
            'memory://folder/x'
        """
        bucket = _BUCKET.match(url) if isinstance(url, str) and "::" not in url else None
        if bucket is not None and bucket[0] in self._of_buckets:
            return self._of_buckets[bucket[0]], bucket.string[bucket.start(1) :].strip("/")
        store, path = open_store(url, self.options, retry=self.retry, backend=self.backend)
        if self.cache is not None:
            from tfio_store.storage.cache.store import cached

            # one of each store, by which a dataset knows that its shards lie together
            store = self._cached.setdefault(id(store), cached(store, self.cache))
        if bucket is not None:
            self._of_buckets[bucket[0]] = store
        return store, path


def given_storage(
    storage_options: Mapping[str, Any] | None, storage: Storage | None
) -> Storage | None:
    """The storage that a caller passed as ``storage_options=`` or as ``storage=``.

    None if that is nothing: then an opened source is reached as it was opened, and any other as
    ``Storage()`` says. Raises TypeError or ValueError that names the argument.
    """
    check_options(storage_options, "storage_options")
    check_storage(storage, "storage")
    if storage is not None and storage_options is not None:
        raise ValueError(
            "pass either storage_options= or storage=, not both: tfio_store.Storage takes options "
            "too, as its first argument"
        )
    return Storage(storage_options) if storage_options else storage


def with_index_dir(
    storage: Storage | None, index_dir: str | os.PathLike[str] | None
) -> Storage | None:
    """The same, with another folder for indexes if one is given."""
    if index_dir is None:
        return storage
    return replace(storage or Storage(), index_dir=check_index_dir(index_dir))


def for_writing(storage: Storage | None) -> Storage:
    """The same without its cache, which is of readers only."""
    return Storage() if storage is None else replace(storage, cache=None)


def check_storage(storage: object, name: str) -> None:
    """Raise TypeError unless this is a `Storage`, or None."""
    if storage is not None and not isinstance(storage, Storage):
        kind = type(storage).__name__
        raise TypeError(
            f"{name}= takes a tfio_store.Storage, not {kind}; of a dict, tfio_store.Storage(…)"
        )


def check_index_dir(index_dir: object) -> str | None:
    """A folder's path or URL as text. Raises TypeError for anything else."""
    found = os.fspath(index_dir) if isinstance(index_dir, os.PathLike) else index_dir
    if found is None:
        return None
    if not isinstance(found, str) or not found:
        raise TypeError(f"index_dir= takes a folder's path or URL, not {index_dir!r}")
    # it is sent to processes that stand in other folders
    return found if "://" in found else os.path.abspath(found)


def check_options(options: object, name: str) -> None:
    """Raise TypeError unless these are a mapping, or None."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"{name}= takes a dict of options, not {type(options).__name__}")


def _unpickled(*values: Any) -> Storage:
    """What a pickle says was checked when it was made."""
    made = object.__new__(Storage)
    _fill(made, *values)
    return made


def _fill(storage: Storage, *values: Any) -> None:
    names = ("options", "retry", "backend", "cache", "index_dir", "_of_buckets", "_cached")
    for name, value in zip(names, (*values, {}, {}), strict=True):
        object.__setattr__(storage, name, value)
