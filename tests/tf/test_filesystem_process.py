"""The plugin in a whole process: registration, exit, signals, forks."""

from __future__ import annotations

import json

import pytest

from tests.servers.place import Place
from tests.tf.run_program import run

pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

REGISTER = 'tfs.register_filesystem("s3", storage_options=ARGS["options"])\n'


def test_registering_again_changes_the_options(s3: Place) -> None:
    s3.put("file", b"text")
    run(
        """
        wrong = {**ARGS["options"], "endpoint_url": "http://127.0.0.1:9"}
        tfs.register_filesystem("s3", "memory")
        tfs.register_filesystem("s3", storage_options=ARGS["options"])
        tfs.register_filesystem("s3", storage_options=ARGS["options"])
        assert tf.io.gfile.GFile(ARGS["url"]).read() == "text"
        assert tf.io.gfile.get_registered_schemes().count("s3") == 1
        """,
        options=s3.storage_options,
        url=s3.url("file"),
    )


def test_schemes_that_are_refused() -> None:
    out = run(
        """
        for schemes, options in [
            (["file"], {}), (["ram"], {}), (["nosuch"], {}), (["s3://"], {}),
            ([], {}), ([1], {}), (["memory"], {"cache_bytes": -1}), (["memory"], {"filesystem": 1}),
        ]:
            try:
                tfs.register_filesystem(*schemes, **options)
                print("registered", schemes)
            except (ValueError, TypeError) as fault:
                print(type(fault).__name__, fault)
        """
    )
    for line, words in zip(
        out.splitlines(),
        ["no registration", "memory", "nosuch", "'s3'", "at least one", "1", "-1", "int"],
        strict=True,
    ):
        assert "Error" in line
        assert words in line


def test_gs_stands_for_gcs() -> None:
    """TensorFlow's own gs:// can't be replaced."""
    pytest.importorskip("gcsfs")
    run(
        """
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tfs.register_filesystem("gs", storage_options={"token": "anon"})
        assert "gcs://" in str(caught[-1].message), caught
        assert "gcs" in tf.io.gfile.get_registered_schemes()
        """
    )


def test_an_fsspec_filesystem_of_ones_own() -> None:
    run(
        """
        from fsspec.implementations.memory import MemoryFileSystem
        class Mine(MemoryFileSystem):
            protocol = "mine"
            store, pseudo_dirs = {}, [""]
            @classmethod
            def _strip_protocol(cls, path):
                return "/" + path.removeprefix("mine://").strip("/")
        tfs.register_filesystem("mine", filesystem=Mine())
        tf.io.write_file("mine://a/b", b"text")
        assert tf.io.read_file("mine://a/b") == b"text"
        assert Mine().cat_file("/a/b") == b"text"
        """
    )


@pytest.mark.parametrize("first", ["tensorflow", "tfio_store"])
def test_the_environment_variable(first: str) -> None:
    second = {"tensorflow": "tfio_store", "tfio_store": "tensorflow"}[first]
    import os
    import subprocess
    import sys

    code = f"""
import {first}, sys
assert {first!r} == "tensorflow" or "tensorflow" not in sys.modules
import {second}
import tensorflow as tf
tf.io.write_file("memory://a/b", b"text")
print(tf.io.read_file("memory://a/b").numpy())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TFIO_STORE_FILESYSTEMS": "memory, nosuch"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "b'text'\n"
    assert "TFIO_STORE_FILESYSTEMS" in done.stderr
    assert "nosuch" in done.stderr


@pytest.mark.parametrize(
    ("files", "blocks", "cache_mib", "most"), [(1, 60, 256, 40), (4, 20, 64, 80)]
)
def test_what_is_read_ahead_is_fetched_once(
    files: int, blocks: int, cache_mib: int, most: int
) -> None:
    """Four files side by side in a cache that they fill, or one in requests of several blocks."""
    out = run(
        """
        from tfio_store.storage.fsspec_store import MemoryStore
        from tfio_store.tf.filesystem.files import ReadFile
        MemoryStore.range_bytes = 8 << 20  # as of a store far away
        tfs.register_filesystem("memory", cache_bytes=ARGS["cache_mib"] << 20)
        urls = [f"memory://ahead/{i}" for i in range(ARGS["files"])]
        record = b"x" * (65536 - 16)  # the rest is its frame
        for url in urls:
            with tf.io.TFRecordWriter(url) as writer:
                for _ in range(32 * ARGS["blocks"]):
                    writer.write(record)
        asked, fetch = [], ReadFile.fetch
        def counted(self, start, stop, arrived):
            asked.append((self.url, start, stop))
            fetch(self, start, stop, arrived)
        ReadFile.fetch = counted
        dataset = tf.data.TFRecordDataset(urls, num_parallel_reads=4)
        assert all(found == record for found in dataset.as_numpy_iterator())
        print(json.dumps(sorted(asked)))
        """,
        files=files,
        blocks=blocks,
        cache_mib=cache_mib,
    )
    asked = json.loads(out)
    assert len(asked) <= most
    at: dict[str, int] = {}
    for url, start, stop in asked:
        assert start == at.get(url, 0)
        assert stop - start <= 8 << 20
        at[url] = stop
    assert set(at.values()) == {blocks * 2 << 20}


LIVE_PIPELINE = (
    REGISTER
    + """
import threading
dataset = tf.data.TFRecordDataset(ARGS["files"] * 8, num_parallel_reads=8).repeat()
iterator = iter(dataset.prefetch(64))
for _ in range(ARGS["taken"]):
    next(iterator)
writer = tf.io.TFRecordWriter(ARGS["out"])
writer.write(b"half")
print("leaving")
"""
)


@pytest.mark.long
def test_exit_with_everything_running(s3: Place) -> None:
    """The interpreter leaves while TensorFlow's threads read, read ahead and write."""
    import tensorflow as tf

    from tfio_store.tf.filesystem import register_filesystem

    register_filesystem("s3", storage_options=s3.storage_options)
    with tf.io.TFRecordWriter(s3.url("r")) as writer:
        for _ in range(3000):
            writer.write(b"x" * 3000)
    for taken in range(1, 2000, 800):
        out = run(
            LIVE_PIPELINE,
            fresh=True,
            options=s3.storage_options,
            files=[s3.url("r")],
            out=s3.url(f"out-{taken}"),
            taken=taken,
            timeout=60,
        )
        assert out == "leaving\n"


def test_events_survive_a_program_that_does_not_close_them(s3: Place) -> None:
    run(
        REGISTER
        + """
writer = tf.summary.create_file_writer(ARGS["url"])
with writer.as_default():
    tf.summary.write("a", tf.constant(1.0), step=1)
    writer.flush()
""",
        fresh=True,
        options=s3.storage_options,
        url=s3.url("logs"),
    )
    (log,) = (name for name in s3.names("logs") if "events" in name)
    assert len(s3.get(log)) > 50


def test_a_half_written_file_is_not_shown_at_exit(s3: Place) -> None:
    run(
        REGISTER
        + """
import builtins
builtins.kept = tf.io.TFRecordWriter(ARGS["url"])
builtins.kept.write(b"x" * 5_000_000)
os._exit(0) if ARGS["kill"] else None
""",
        fresh=True,
        options=s3.storage_options,
        url=s3.url("half"),
        kill=True,
    )
    assert s3.names() == []


def test_a_forked_child_reads_and_writes(s3: Place) -> None:
    s3.put("file", b"text" * 1_000_000)
    run(
        REGISTER
        + """
gfile = tf.io.gfile
assert len(gfile.GFile(ARGS["url"], "rb").read()) == 4_000_000
handle = gfile.GFile(ARGS["url"], "rb")
handle.read(10)
child = os.fork()
if child == 0:
    status = 1
    try:
        handle.seek(2_000_000)
        assert handle.read(4) == b"text"
        gfile.GFile(ARGS["out"], "wb").write(b"from the child")
        assert gfile.GFile(ARGS["url"], "rb").read()[-4:] == b"text"
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
assert gfile.GFile(ARGS["out"]).read() == "from the child"
""",
        options=s3.storage_options,
        url=s3.url("file"),
        out=s3.url("out"),
        timeout=60,
    )


@pytest.mark.parametrize("kind", ["s3", "memory"])
def test_a_cache_file_that_is_dropped_on_the_loop(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """The collector ends an iterator on the thread that does the requests. In its last moment that
    asks whether its file is there."""
    place: Place = request.getfixturevalue(kind)
    run(
        """
        import gc, threading
        import fsspec.asyn
        tfs.register_filesystem(ARGS["scheme"], storage_options=ARGS["options"])
        gc.disable()

        def drop():
            iterator = iter(tf.data.Dataset.range(1000).cache(ARGS["url"]))
            next(iterator)
            cycle = [iterator]
            cycle.append(cycle)

        drop()
        collected = threading.Event()
        fsspec.asyn.get_loop().call_soon_threadsafe(lambda: (gc.collect(), collected.set()))
        assert collected.wait(60)
        assert tf.io.gfile.glob(ARGS["url"] + "*") is not None  # the loop works as before
        """,
        scheme=kind,
        options=place.storage_options,
        url=place.url("cache"),
    )
