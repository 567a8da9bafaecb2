"""Servers and places shared by the tests."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.abc
import importlib.util
import os
import re
import sys
import uuid
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.servers import azurite, ceph as ceph_server, gcs as gcs_emulator, moto, shared
from tests.servers.moto import KEY, SECRET
from tests.servers.place import Place, fresh
from tests.servers.shaping_proxy import Shaped, shaped as shaping_proxy
from tests.servers.trap import Trap, trap
from tfio_store.storage import read_ahead

# How long an example takes says nothing here: the first one imports, traces, or waits for others.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's: give free memory back to the system."""

TENSORFLOW_ROOM = Path(__file__).parent / "tf"
CLIENTS = {"gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "azure": "adlfs"}
"""What a test can't do without, by a word of its name. Not every Python has a wheel of each."""


class WithoutTensorFlow(importlib.abc.MetaPathFinder):
    """Refuses to import TensorFlow: a test that needs it bears the mark ``tensorflow``."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "tensorflow" or name.startswith("tensorflow."):
            raise ModuleNotFoundError("this test has no mark `tensorflow`", name=name)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tensorflow",
        choices=["with", "without", "only"],
        default="with",
        help="run all tests; those that TensorFlow can't be imported in; those that are left",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The process that starts the workers holds their servers; a run of one process, its own."""
    if config.getoption("--tensorflow") == "without":
        sys.meta_path.insert(0, WithoutTensorFlow())
    config.pluginmanager.register(Products())
    if not hasattr(config, "workerinput") and shared.SOCKET not in os.environ:
        servers = contextlib.ExitStack()
        servers.enter_context(shared.supervised())
        config.add_cleanup(servers.close)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that cannot have a test of the wanted kind are not even imported."""
    wanted, here = config.getoption("--tensorflow"), TENSORFLOW_ROOM in collection_path.parents
    if wanted == "only" and not here and collection_path.name.startswith("test_"):
        return "mark.tensorflow" not in collection_path.read_text() or None
    return (wanted == "without" and here) or None


class Products:
    """Of a product of parameters, the run that one waits for takes as many cases as it needs to
    have each value of each parameter once, and the long run the others. Cases that need no server
    and no TensorFlow are fast: they all run."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if hasattr(item, "callspec") and item.get_closest_marker("long") is None:
                cases[item.nodeid.partition("[")[0]].append(item)
        for found in cases.values():
            _mark_long(found)


def _mark_long(cases: list[pytest.Item]) -> None:
    left = [item for item in cases if _is_slow(item)]
    seen = {value for item in cases if item not in left for value in _values(item)}
    while left:
        best = max(left, key=lambda item: len(_values(item) - seen))
        if _values(best) <= seen:
            break
        seen |= _values(best)
        left.remove(best)
    for item in left:
        item.add_marker(pytest.mark.long)


def _values(item: pytest.Item) -> set[tuple[str, int]]:
    params: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    return {(name, id(value)) for name, value in params.items()}


def _is_slow(item: pytest.Item) -> bool:
    params: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    needed = {str(value).partition("+")[0] for value in params.values()}
    needed.update(getattr(item, "fixturenames", ()))
    return TENSORFLOW_ROOM in item.path.parents or not needed.isdisjoint(shared.SERVERS)


def pytest_collection_finish() -> None:
    """The thousands of tests are no garbage: what collects it, as some tests do, need not look at
    them each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a module's tests have freed goes back to the system, or workers would only grow. Dropped
    iterators of TensorFlow end here: in the thread that does a client's requests they would wait
    for it. What is left are modules that were imported, which are no garbage either."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
        if _trim is not None:
            _trim(0)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Chooses the tests of TensorFlow or the others; skips those of what is not installed."""
    missing = {word for word, name in CLIENTS.items() if importlib.util.find_spec(name) is None}
    for item in items if missing else []:
        for word in missing.intersection(re.split(r"[\W_]+", item.name)):
            item.add_marker(pytest.mark.skip(reason=f"{CLIENTS[word]} is not installed"))
    wanted = config.getoption("--tensorflow")
    of_tensorflow: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        room = TENSORFLOW_ROOM in item.path.parents
        of_tensorflow[room or item.get_closest_marker("tensorflow") is not None].append(item)
    if wanted != "without" and importlib.util.find_spec("tensorflow") is None:
        for item in of_tensorflow[True]:
            item.add_marker(pytest.mark.skip(reason="TensorFlow is not installed"))
    if wanted != "with":
        config.hook.pytest_deselected(items=of_tensorflow[wanted == "without"])
        items[:] = of_tensorflow[wanted == "only"]


@pytest.fixture(scope="session", autouse=True)
def still_without_lock() -> Iterator[None]:
    """Where Python has begun without the GIL, nothing that the tests import turns it on."""
    asked = getattr(sys, "_is_gil_enabled", lambda: True)
    begun_with = asked()
    yield
    assert asked() == begun_with


@pytest.fixture(scope="session", autouse=True)
def outside() -> Iterator[Trap]:
    """Blocks every address but this machine's own, and knows who tried."""
    with trap() as noted:
        yield noted


@pytest.fixture(autouse=True)
def loopback_only(outside: Trap) -> Iterator[None]:
    """Fails a test that reached for another address, even where the error was swallowed."""
    yield
    assert outside.attempts() == []


@pytest.fixture(autouse=True)
def threads_at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is read here is small, so one thread would read all of it. In every other test, always
    the same ones, threads read together from the second range on."""
    with pytest.MonkeyPatch.context() as patched:
        if zlib.crc32(request.node.nodeid.encode()) % 2:
            patched.setattr(read_ahead, "_ALONE", 1e-9)
        yield


def s3_options(endpoint: str) -> dict[str, Any]:
    return {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}


@pytest.fixture(scope="session")
def s3_server() -> str:
    """The endpoint URL of an S3 server for the whole run (moto)."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    return shared.address("s3")


@pytest.fixture
def s3(s3_server: str) -> Iterator[Place]:
    """A fresh bucket."""
    place = fresh("s3", s3_server)
    yield place
    moto.forget(s3_server, place.root.removeprefix("s3://"))


@pytest.fixture
def bucket(s3: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A bucket that programs find without options."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return s3


@pytest.fixture(scope="session")
def ceph_endpoint() -> str:
    """The endpoint URL of a real S3 gateway for the whole run; `make servers` installs it."""
    pytest.importorskip("s3fs")
    if not ceph_server.installed():
        pytest.skip("Ceph is not installed, or needs root: make servers")
    return shared.address("ceph")


@pytest.fixture
def ceph(ceph_endpoint: str) -> Place:
    """A fresh bucket on Ceph."""
    return fresh("s3", ceph_endpoint)


@pytest.fixture(scope="session")
def gcs_server() -> str:
    """The endpoint URL of a Google Cloud Storage emulator for the whole run."""
    pytest.importorskip("gcsfs")
    pytest.importorskip("gcp_storage_emulator")
    return shared.address("gcs")


@pytest.fixture
def gcs(gcs_server: str) -> Iterator[Place]:
    """A fresh bucket on Google Cloud Storage."""
    place = fresh("gs", gcs_server)
    yield place
    gcs_emulator.forget(gcs_server, place.root.removeprefix("gs://"))


@pytest.fixture(scope="session")
def azure_server() -> str:
    """The connection string of an Azure Blob server for the whole run."""
    pytest.importorskip("adlfs")
    if azurite.program() is None:
        pytest.skip("Azurite is not installed: make servers")
    return shared.address("azure")


@pytest.fixture
def azure(azure_server: str) -> Place:
    """A fresh container on Azure Blob Storage."""
    return fresh("az", azure_server)


@pytest.fixture
def shaped() -> Iterator[Callable[..., Shaped]]:
    """``shaped(endpoint, ttfb_ms=30, p_503=0.05, ...)``: a proxy with latency, caps and faults."""
    with contextlib.ExitStack() as stack:
        yield lambda endpoint, **shape: stack.enter_context(shaping_proxy(endpoint, **shape))


@pytest.fixture
def memory() -> Iterator[Place]:
    """A fresh folder of fsspec's in-memory filesystem, which keeps all that nobody deletes."""
    name = f"test-{uuid.uuid4().hex[:16]}"
    yield Place(f"memory://{name}")
    files = MemoryFileSystem.store
    for path in [path for path in files if path.startswith(f"/{name}/")]:
        del files[path]


@pytest.fixture(params=["local", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The same test on local files, in memory and on S3."""
    if request.param == "local":
        return Place(str(tmp_path))
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["fsspec", "obstore"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "obstore":
        pytest.importorskip("obstore")  # which Python 3.10 has no wheel of
    return str(request.param)


@pytest.fixture
def pages_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of shards are written in pages of three, as those of very long datasets."""
    from tests.support.indexes import all_long

    all_long(monkeypatch, 3)
