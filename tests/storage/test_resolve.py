"""From a URL to its store."""

from __future__ import annotations

import os
import pickle
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.servers.place import Place
from tests.support.started import python
from tfio_store.storage import Retry, Storage, open_store, registry, resolve
from tfio_store.storage.local import LocalStore


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("file:///a/b", "/a/b"),
        ("local:///a/b c", "/a/b c"),
        (Path("/a/b"), "/a/b"),
        (b"/a/b", "/a/b"),
        ("/odd::name", "/odd::name"),
        ("rel", os.path.abspath("rel")),
        ("memory://a/b", "/a/b"),
        ("s3://bucket/a/b", "bucket/a/b"),
        ("S3://bucket/a#b?c", "bucket/a#b?c"),
        ("s3a://bucket/folder/", "bucket/folder"),
    ],
)
def test_path(url: str, path: str) -> None:
    assert open_store(url)[1] == path


@pytest.mark.parametrize(
    ("url", "path", "options"),
    [
        ("az://container/a/b?c", "container/a/b?c", {}),
        ("abfss://box@acc.dfs.core.windows.net/a/b", "box/a/b", {"account_name": "acc"}),
        ("abfs://box@acc.blob.core.windows.net", "box", {"account_name": "acc"}),
    ],
)
def test_azure_path(url: str, path: str, options: dict[str, str]) -> None:
    assert resolve.split("az", url)[:2] == (path, options)


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(ValueError, match=r"no storage is known for nosuch:// URLs; install"):
        open_store("nosuch://a/b")


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="backend='rust': pass one of 'auto', 'obstore', 'fsspec'"):
        open_store("/a", backend="rust")


def test_an_empty_url_is_refused() -> None:
    with pytest.raises(ValueError, match="url"):
        open_store("")


def test_a_missing_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    def refuse(name: str) -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", refuse)
    with pytest.raises(ImportError, match=r"pip install 'tfio_store\[s3\]'"):
        open_store("s3://bucket/x", {"key": "unseen"})


def test_equal_options_share_a_store() -> None:
    options = {"key": "a", "secret": "b", "client_kwargs": {"region_name": "r"}}
    first = open_store("s3://b/x", options)[0]
    assert open_store("s3://b/y", {**options, "client_kwargs": {"region_name": "r"}})[0] is first
    assert open_store("s3://b/y", {**options, "secret": "c"})[0] is not first
    assert open_store("s3://b/y", options, retry=Retry(attempts=2))[0] is not first


@pytest.mark.parametrize(
    "url", ["s3://b/x", "s3://b/a@b:c//d/", "s3://b/a?b#c", "s3://b/", "S3://b/x", "gs://b/x"]
)
def test_a_storage_that_has_found_a_bucket_finds_the_same_again(url: str) -> None:
    storage = Storage({"anon": True})
    expected = open_store(url, storage.options)
    assert [storage.open(url) for _ in range(3)] == [expected] * 3
    copy = pickle.loads(pickle.dumps(storage))
    assert copy == storage
    assert len(pickle.dumps(copy)) == len(pickle.dumps(Storage({"anon": True})))
    assert copy.open(url) == expected


def test_a_storage_that_has_found_a_bucket_takes_no_other_name_for_it() -> None:
    storage = Storage({"anon": True})
    storage.open("s3://b/x")
    assert storage.open("s3://other/x")[1] == "other/x"
    assert storage.open("s3a://b/x")[0] is not storage.open("s3://b/x")[0]
    with pytest.raises(ValueError, match="no '@' or ':'"):
        storage.open("s3://b:c@d/x")
    with pytest.raises(ValueError, match="nosuch"):
        storage.open("s3://b/x::nosuch://y")
    with pytest.raises(TypeError, match="url must be a path or URL"):
        storage.open(7)  # type: ignore[arg-type]


def test_stores_do_not_pile_up() -> None:
    for number in range(100):
        open_store("s3://b/x", {"key": str(number)})
    assert len(registry._stores) == registry.KEPT_STORES


class Elsewhere(LocalStore):
    def __init__(self, scheme: str, options: dict[str, object], retry: Retry) -> None:
        super().__init__(scheme, options, retry)
        self.made_for = scheme, dict(options), retry


class Outdated:
    """A plugin's store, of before `Store` asked for more."""

    in_flight = 1

    def __init__(self, scheme: str, options: dict[str, object], retry: Retry) -> None:
        pass


def test_an_entry_point_adds_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mystore", f"{__name__}:Elsewhere", resolve.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    store, path = open_store("mystore://a/b c#d", {"x": 1}, retry=Retry(attempts=3))
    assert isinstance(store, Elsewhere)
    assert store.made_for == ("mystore", {"x": 1}, Retry(attempts=3))
    assert path == "a/b c#d"


def test_a_plugin_that_lacks_members_is_refused_when_it_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("mystore", f"{__name__}:Outdated", resolve.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    with pytest.raises(TypeError, match=r"mystore://.*Outdated lacks .*most_in_flight"):
        open_store("mystore://a")


def test_fsspec_chains(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("inner/a.bin", b"abc")
    store, path = open_store(f"zip://inner/a.bin::file://{tmp_path}/x.zip")
    assert store.info(path).size == 3
    assert bytes(store.read(path, 1, 3).result()) == b"bc"


def test_delays_grow_up_to_their_limit() -> None:
    retry = Retry(base_delay=1, max_delay=5)
    assert all(
        0 <= retry.delay(failures) <= min(5, 2 ** (failures - 1)) for failures in range(1, 90)
    )
    assert max(retry.delay(2000) for _ in range(100)) > 2.5


LEAVES = """
    import threading, sys
    from tfio_store.storage import open_store
    store, path = open_store({url!r}, {options!r}, backend={backend!r})
    store.put(path, b"x" * 1000)
    output = store.open_output(path + "2")
    output.write(bytes(20 << 20))
    reads = [store.read(path, 0, 1000) for _ in range(50)]
    {end}
"""


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_nothing_hangs_or_complains_when_the_interpreter_leaves(
    place: Place, backend: str, end: str
) -> None:
    script = textwrap.dedent(LEAVES).format(
        url=place.url("x"), options=place.storage_options, backend=backend, end=end
    )
    done = python(script)
    assert done.returncode == {"pass": 0, "sys.exit(3)": 3}.get(end, -2 % 256 and done.returncode)
    complaints = done.stderr.replace("KeyboardInterrupt", "")
    assert "Error" not in complaints, done.stderr
    assert "Unclosed" not in complaints, done.stderr
    assert [name for name in place.names() if not name.endswith(".tmp")] in (["x"], [])
