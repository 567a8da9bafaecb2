"""`diagnose`: what this machine has of what the library can use."""

from __future__ import annotations

import glob
import os
import platform
import sys
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

from tfio_store.example import backend as running_backend
from tfio_store.records._pure_batch import crc32c as by_google
from tfio_store.records.compression import CODECS, codec_name
from tfio_store.records.framing import crc32c
from tfio_store.storage import Retry, Storage, Store
from tfio_store.storage.cores import cores

_PACKAGES = (
    "tfio_store", "numpy", "fsspec", "google-crc32c", "s3fs", "gcsfs", "adlfs", "obstore",
    "pyarrow", "pandas", "pillow", "zstandard", "isal", "deflate", "tensorflow", "click", "rich",
)  # fmt: skip


_PATIENCE_S = 5.0
"""For so many seconds a store that is down is asked. A job waits for longer."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The versions, codecs and backends of this machine.

    Attributes:
        python (str): The version of Python.
        platform (str): The machine and its system.
        cpus (int): How many CPUs this process may use.
        core (str): "compiled" or "pure": what frames records.
        crc32c (str): The kernel that computes CRCs.
        crc32c_agrees (bool): Whether it finds what google-crc32c finds, on this machine, for 712
            runs of up to 64 KiB that begin at four addresses. If not, report it, and set
            ``TFIO_STORE_CORE=pure``.
        example (str): "compiled" or "pure": what reads and writes Examples.
        codecs (tuple[str]): The compressions that can be read and written.
        packages (dict[str, str | None]): The versions of what is installed; None if it is not.
        endpoint (str | None): The URL that was asked for.
        there (bool | None): Whether anything is at that URL, or a dataset has that prefix.
            A missing bucket looks as an empty one does. None if no URL was asked for.
        conditional (bool | None): Whether its store decides conditional writes, so that two writers
            never harm each other. None if no URL was asked for.
        client (str | None): What reads from its store, if that is S3, GCS or Azure: "obstore" or
            "fsspec", and why fsspec although obstore was wanted. None for other places.
    """

    python: str
    platform: str
    cpus: int
    core: str
    crc32c: str
    crc32c_agrees: bool
    example: str
    codecs: tuple[str, ...]
    packages: dict[str, str | None]
    endpoint: str | None
    there: bool | None
    conditional: bool | None
    client: str | None


def diagnose(
    url: str | os.PathLike[str] | None = None,
    *,
    storage: Storage | None = None,
) -> Diagnosis:
    """List what this machine has of what the library can use. Nothing is written.

    Args:
        url (str | PathLike | None): A place to look at too: whether its store can be reached,
            whether anything is there, and whether it decides conditional writes. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        Diagnosis: Versions, kernels and codecs.

    Raises:
        OSError: The store cannot be reached.
        ImportError: The package that knows the URL's scheme is not installed.
    """
    running = running_backend()
    endpoint = there = conditional = client = None
    if url is not None:
        reached = storage or Storage()
        if reached.retry is None:
            reached = replace(reached, retry=Retry(outage=_PATIENCE_S))
        store, path = reached.open(url)
        there = _is_there(store, path)
        endpoint, conditional = store.url(path), store.conditional
        client = store.client_of(path) if hasattr(store, "client_of") else None
    return Diagnosis(
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        cpus=cores(),
        core=running.core,
        crc32c=running.crc32c,
        crc32c_agrees=_crc32c_agrees(),
        example=running.example,
        codecs=_codecs(),
        packages={name: _version(name) for name in _PACKAGES},
        endpoint=endpoint,
        there=there,
        conditional=conditional,
        client=client,
    )


def _is_there(store: Store, path: str) -> bool:
    """Whether there is an object, a folder, or a dataset of that prefix. A wrong endpoint or
    credential shows here."""
    try:
        if store.look(path) is not None or next(iter(store.list(path)), None) is not None:
            return True
        return "/" in path and bool(store.glob(glob.escape(path) + "-*"))
    except FileNotFoundError:  # no such bucket
        return False


def _crc32c_agrees() -> bool:
    """Kernels take long runs, their ends and odd addresses by different ways."""
    data = memoryview(bytes(at * at * 31 >> 3 & 255 for at in range(1 << 16)))
    short = ((start, start + length) for start in range(4) for length in range(0, 516, 3))
    long = ((start, 1 << exponent) for start in range(3) for exponent in range(9, 17))
    runs = [data[start:stop] for start, stop in (*short, *long)]
    return all(crc32c(run) == by_google(run) for run in runs)


def _version(package: str) -> str | None:
    if package == "tfio_store":
        import tfio_store

        return tfio_store.__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _codecs() -> tuple[str, ...]:
    found = []
    for codec in CODECS:
        try:
            found.append(str(codec_name(codec)))
        except ImportError:
            continue
    return tuple(found)
