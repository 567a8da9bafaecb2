"""From a URL to the store that keeps it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tfio_store.storage.faults import unopened
from tfio_store.storage.redaction import redacted
from tfio_store.storage.registry import AzureOrigin, Factory, Origin, shared_store, surroundings
from tfio_store.storage.retry import Retry, log
from tfio_store.storage.store import Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["check_backend", "open_store"]

ENTRY_POINTS = "tfio_store.stores"
BACKENDS = ("auto", "obstore", "fsspec")
USUAL_RETRY = Retry()

SERVICES = {
    "s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs",
    "abfs": "azure", "abfss": "azure", "az": "azure",
}  # fmt: skip
"""Of each scheme; also the extra that installs the client."""

STORES = {
    "file": "tfio_store.storage.local.LocalStore",
    "memory": "tfio_store.storage.fsspec_store.MemoryStore",
    "http": "tfio_store.storage.http.HTTPStore",
    "https": "tfio_store.storage.http.HTTPStore",
    "s3": "tfio_store.storage.cloud.s3.S3Store",
    "gcs": "tfio_store.storage.cloud.gcs.GCSStore",
    "azure": "tfio_store.storage.cloud.azure.AzureStore",
    "fsspec": "tfio_store.storage.fsspec_store.FsspecStore",
}
"""The stores of schemes and services, and what serves all others."""

OBSTORES = {
    service: (
        f"tfio_store.storage.cloud.obstore.Auto{name}Store",
        f"tfio_store.storage.cloud.obstore.Obstore{name}Store",
    )
    for service, name in (("s3", "S3"), ("gcs", "GCS"), ("azure", "Azure"))
}
"""What reads a service by obstore where it can, and what always does."""

BUCKETS = ("s3", "s3a", "gs", "gcs")

_CHAIN = re.compile(r"[A-Za-z][\w+.-]*(://.*)?::[A-Za-z][\w+.-]*://", re.DOTALL)
"""One of fsspec's chains, as in ``simplecache::s3://bucket/key``."""

OWN_SCHEMES = frozenset({*SERVICES, "file", "http", "https", "memory"})
"""Schemes that no plug-in replaces. The list of plug-ins is not even read for them."""


def open_store(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    retry: Retry | None = None,
    backend: str = "auto",
) -> tuple[Store, str]:
    """The store that keeps ``url``, and the object's path in it.

    ``url`` is a local path (``~`` is the home directory), or a URL of any scheme that fsspec or an
    installed plugin (entry point group ``tfio_store.stores``) knows; ``storage_options`` are what
    its fsspec class takes. ``backend="auto"`` reads S3, GCS and Azure by obstore where it is
    installed, and where it can honour the options; "obstore" is for those who want to hear if not,
    and "fsspec" never takes it. All else, writing included, goes through fsspec. Stores of the same
    options share their connections.

    Raises ValueError for an unknown scheme or backend, ImportError where the package that knows the
    scheme is not installed; both say what to install.
    """
    check_backend(backend)
    if not isinstance(url, str | bytes | os.PathLike):
        raise TypeError(f"url must be a path or URL, not {type(url).__name__}")
    text = os.fsdecode(os.fspath(url))
    if not text:
        raise ValueError("url: pass a path or URL, not an empty string")
    if "://" in text and "::" in text and _CHAIN.match(text):
        return open_chain(text, storage_options or {}, retry or USUAL_RETRY)
    scheme = scheme_of(text)
    factory = factory_of(scheme, backend)
    if scheme != "file":
        text = scheme + text[text.index("://") :]  # HTTP:// is http://
    path, found_options, origin = split(scheme, text)
    options = {**found_options, **(storage_options or {})}
    return shared_store(factory, scheme, options, retry or USUAL_RETRY, origin), path


def check_backend(backend: object) -> None:
    """Raise ValueError that names the argument, unless there is such a backend."""
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: pass one of {', '.join(map(repr, BACKENDS))}")


def open_chain(url: str, options: Mapping[str, Any], retry: Retry) -> tuple[Store, str]:
    """One of fsspec's chains, which becomes options of its first filesystem."""
    from tfio_store.storage.fsspec_store import FsspecStore

    fs, path = opened_chain(url, options)
    scheme = re.match(r"[\w+.-]+", url)
    assert scheme is not None
    origin = surroundings(url, path)
    return shared_store(FsspecStore, scheme[0].lower(), fs.storage_options, retry, origin), path


def opened_chain(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """fsspec's filesystem and path. Errors name the chain, without its secrets. A ValueError or
    ImportError says what is wrong with the URL or what is missing, and stays what it is."""
    from fsspec.core import url_to_fs

    for link in url.split("::"):
        if scheme_of(link) in BUCKETS:
            split_bucket(link)
    try:
        fs, path = url_to_fs(url, **options)
        return fs, path
    except Exception as fault:
        error = unopened(fault, redacted(url), options)
    raise error  # outside the handler, which would chain the fault to it as it was


def scheme_of(url: str) -> str:
    """The URL's scheme in lower case; "file" for a path without one."""
    if "://" not in url:  # as of 10,000 local files, which are not to be searched one by one
        return "file"
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", url)
    if found is None:
        return "file"
    return "file" if found[1].lower() == "local" else found[1].lower()


def split(scheme: str, url: str) -> tuple[str, dict[str, Any], Origin | None]:
    """The path within the store, the options that the URL itself carries, and its text for them."""
    if scheme == "file":
        named = re.sub(r"^(?i:file|local)://", "", url) if "://" in url else url
        return os.path.abspath(os.path.expanduser(named)), {}, None
    if scheme in BUCKETS:  # whose keys may hold anything, "?" and "#" too
        return split_bucket(url), {}, None
    if SERVICES.get(scheme) == "azure":
        return split_azure(scheme, url)
    if scheme not in OWN_SCHEMES and scheme in plugins():
        return url.partition("://")[2], {}, None
    import fsspec

    cls = fsspec.get_filesystem_class(scheme)
    try:
        path, options = cls._strip_protocol(url), cls._get_kwargs_from_urls(url)
    except ValueError:
        options = None
    if options is None:  # outside the handler: the fault shows parts of a password
        raise ValueError(
            f"{redacted(url)}: is no URL; of a user or password write #, ?, /, @ and : as %23, "
            "%3F, %2F, %40 and %3A"
        )
    origin = surroundings(url, path) if options else None
    if options and origin is None:
        raise ValueError(
            f"{redacted(url)}: other files of the same place could not be named, since the URL "
            f"does not end in the path {path!r}; pass {', '.join(options)} in storage_options="
        )
    return path, options, origin


def split_bucket(url: str) -> str:
    """``bucket/key`` of an S3 or GCS URL. These carry no credentials, and clients would quote them
    in their errors."""
    rest = url.partition("://")[2].strip("/")
    bucket = rest.partition("/")[0]
    if "@" in bucket or (":" in bucket and not bucket.startswith("arn:")):
        shown = f"…@{rest.rpartition('@')[2]}" if "@" in rest else "…"
        raise ValueError(
            f"{scheme_of(url)}://{shown}: a bucket's name has no '@' or ':'; pass keys and "
            "endpoints in storage_options="
        )
    return rest


def split_azure(scheme: str, url: str) -> tuple[str, dict[str, Any], Origin | None]:
    """``az://container/name``, or ``abfss://container@account.dfs.core.windows.net/name``."""
    rest = url.partition("://")[2].strip("/")
    hosts = r"(([^/.]+)\.(?:dfs|blob)\.core\.windows\.net)"
    found = re.match(rf"([^/@]+)@{hosts}(/.*)?$", rest, re.DOTALL)
    if found is None:
        return rest, {}, None
    path = found[1] + (found[4] or "")
    return path, {"account_name": found[3]}, AzureOrigin(scheme, found[2])


def factory_of(scheme: str, backend: str) -> Factory:
    """The function that makes stores of this scheme. Imports the client that it needs."""
    if scheme in ("file", "memory"):
        return store_class(STORES[scheme])
    if scheme not in OWN_SCHEMES and scheme in plugins():
        return plugins()[scheme].load()  # type: ignore[no-any-return]
    by_name = backend == "obstore"
    if scheme in SERVICES and (by_name or (backend == "auto" and takes_obstore(scheme))):
        return obstore_factory(scheme, by_name=by_name)
    return fsspec_factory(scheme)


@cache  # so that the log names each scheme once
def takes_obstore(scheme: str) -> bool:
    """Whether "auto" reads this scheme by obstore, whose stores themselves leave to fsspec what
    obstore would not do as fsspec does."""
    try:
        import obstore
    except ImportError as fault:
        log.info("%s:// is read by fsspec, since obstore is missing: %s", scheme, fault)
        return False
    log.info("%s:// is read by obstore %s", scheme, obstore.__version__)
    return True


def obstore_factory(scheme: str, *, by_name: bool) -> Factory:
    fsspec_factory(scheme)  # says what is missing of what obstore's stores build on
    try:
        import obstore  # noqa: F401
    except ImportError as fault:
        raise ImportError("backend='obstore' needs: pip install 'tfio_store[obstore]'") from fault
    return store_class(OBSTORES[SERVICES[scheme]][by_name])


def fsspec_factory(scheme: str) -> Factory:
    import fsspec

    service = SERVICES.get(scheme)
    try:
        fsspec.get_filesystem_class(scheme)
    except ValueError:
        raise ValueError(
            f"no storage is known for {scheme}:// URLs; install the package that adds an fsspec "
            f"filesystem (or a {ENTRY_POINTS} entry point) for it, or check the spelling"
        ) from None
    except ImportError as fault:
        wanted = f"pip install 'tfio_store[{service}]'" if service else str(fault)
        raise ImportError(
            f"{scheme}:// URLs need a package that is not installed: {wanted}"
        ) from fault
    return store_class(STORES.get(service or scheme, STORES["fsspec"]))


def store_class(name: str) -> Factory:
    """The store of this name. Its module is imported now, and its client with it."""
    module, _, cls = name.rpartition(".")
    return getattr(import_module(module), cls)  # type: ignore[no-any-return]


def plugins() -> Mapping[str, EntryPoint]:
    """Schemes that installed packages add."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
