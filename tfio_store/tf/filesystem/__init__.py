"""fsspec's filesystems in TensorFlow: ``tfs.register_filesystem("s3")``, or by an environment
variable.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tfio_store.records.texts import warn
from tfio_store.storage import Storage
from tfio_store.storage.registry import options_of
from tfio_store.storage.storage import given_storage
from tfio_store.storage.threads import PerProcess
from tfio_store.tf.bridge import bridge_module
from tfio_store.tf.filesystem.host import Host, Mount
from tfio_store.tf.garbage import destroy_later

INSTEAD = {
    "file": "local files need no registration",
    "ram": "use memory:// URLs with register_filesystem('memory')",
}

_host: Host | None = None
_lock = PerProcess(threading.Lock)


def register_filesystem(
    *schemes: str,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    cache_bytes: int | None = None,
) -> None:
    """Let TensorFlow use URLs of these schemes, in everything that takes a path.

    Registering a scheme again replaces its options for files that are opened from then on.

    Args:
        *schemes (str): Schemes that fsspec knows: "s3", "gcs", "abfs", "memory", "hf" and others.
            TensorFlow has gs:// itself, and no one can take its place: "gs" stands for "gcs", and
            a warning says to write gcs:// for what is read through fsspec.
        filesystem (fsspec filesystem | None): Takes its class and options from this one, in place
            of ``storage_options``. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        cache_bytes (int | None): Bytes of memory for the blocks and the read-ahead of all files
            together. Default None: unchanged, 256 MiB at first.

    Raises:
        ValueError: TensorFlow itself serves a scheme, fsspec does not know it, or two arguments
            contradict each other.
        TypeError: A scheme is no string.
        ImportError: TensorFlow, or the package that serves the scheme, is not installed.

    Example:
        >>> import tensorflow as tf
        >>> tfs.register_filesystem("memory")
        >>> tf.io.write_file("memory://folder/file", b"text")
        >>> tf.io.gfile.listdir("memory://folder")
        ['file']
    """
    if not schemes:
        raise ValueError("register_filesystem(): name at least one scheme, such as 's3'")
    storage = given_storage(storage_options, storage) or Storage()
    if filesystem is not None and storage.options is not None:
        raise ValueError("pass either filesystem= or storage_options=, not both")
    if cache_bytes is not None and cache_bytes < 0:
        raise ValueError(f"cache_bytes={cache_bytes!r}: pass bytes, 0 or more")
    with _lock.here:
        host = _running_host()
        schemes = tuple(_free(scheme, host) for scheme in schemes)
        for scheme in schemes:
            _check(scheme, host)
        for scheme in schemes:
            if filesystem is not None:
                storage = replace(storage, options=options_of(filesystem, scheme))
            _mount(scheme, Mount(storage), host)
    if cache_bytes is not None:
        bridge_module().set_cache_budget(cache_bytes)


def storage_of(scheme: str) -> Storage | None:
    """How TensorFlow reaches the URLs of a scheme that was registered here. None of another."""
    mount = None if _host is None else _host.mounts.get(scheme)
    return None if mount is None else mount.storage


def _mount(scheme: str, mount: Mount, host: Host) -> None:
    mount.open(f"{scheme}://check")  # its package may be missing
    mount.folders(f"{scheme}://check")
    registered = scheme in host.mounts
    host.mounts[scheme] = mount
    if not registered:
        _offer(scheme, host)


def _free(scheme: str, host: Host) -> str:
    """The other name of Google's storage, whose first name is TensorFlow's own."""
    import tensorflow as tf

    if scheme != "gs" or "gs" in host.mounts:
        return scheme
    if "gs" not in tf.io.gfile.get_registered_schemes():
        return scheme
    warn(
        "TensorFlow itself serves gs:// URLs, and goes on doing so: gcs:// is registered; write "
        "gcs://bucket/name for what is to be read through fsspec, with the options given here"
    )
    return "gcs"


def _check(scheme: str, host: Host) -> None:
    import tensorflow as tf

    if not isinstance(scheme, str):
        raise TypeError(f"schemes: pass names such as 's3', not {scheme!r}")
    if not re.fullmatch(r"[a-z][a-z0-9.]*", scheme):
        raise ValueError(f"{scheme!r} is no scheme; pass 's3' for s3:// URLs")
    if scheme in tf.io.gfile.get_registered_schemes() and scheme not in host.mounts:
        instead = INSTEAD.get(scheme, "another library has registered it; import only one of them")
        raise ValueError(f"TensorFlow already serves {scheme}:// URLs: {instead}")


def _running_host() -> Host:
    """The host of this process, at the end of TensorFlow's calls from the first registration on."""
    global _host
    if _host is None:
        import tensorflow  # noqa: F401  (whose libraries must be loaded)

        bridge = bridge_module()
        host = Host(bridge.abandon_reads)
        bridge.serve(host)
        destroy_later()
        _host = host
    return _host


def _offer(scheme: str, host: Host) -> None:
    import tensorflow as tf

    bridge = bridge_module()
    register = partial(tf.experimental.register_filesystem_plugin, bridge.__file__)
    try:
        bridge.offer(scheme, register)
    except BaseException:
        del host.mounts[scheme]
        raise


# Registration by an environment variable, for programs whose code cannot be changed.
#
# With ``TFIO_STORE_FILESYSTEMS=s3,gcs`` set, importing tfio_store registers these schemes: at once
# if TensorFlow is imported already, or else when it is. This never imports TensorFlow by itself.


VARIABLE = "TFIO_STORE_FILESYSTEMS"


def heed_environment() -> None:
    """Register what the variable names, now or once TensorFlow is imported."""
    if not named_schemes():
        return
    if "tensorflow" in sys.modules:
        register_named()
    else:
        sys.meta_path.insert(0, AfterImport("tensorflow", register_named))


def named_schemes() -> list[str]:
    return os.environ.get(VARIABLE, "").replace(",", " ").split()


def register_named() -> None:
    """Register all of them. If one fails, a warning says so, and the program goes on."""
    for scheme in named_schemes():
        try:
            register_filesystem(scheme)
        except Exception as fault:
            warnings.warn(f"{VARIABLE}: {fault}", RuntimeWarning, stacklevel=2)


class AfterImport(MetaPathFinder):
    """Calls ``then`` once, after the first import of a module."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # the next finder answers, here and from now on
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def _wrap(self, loader: Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._then()

        loader.exec_module = exec_module  # type: ignore[method-assign]
