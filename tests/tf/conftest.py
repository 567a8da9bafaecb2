"""What several suites of TensorFlow's file functions share."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.place import Place
from tests.support.long import long

# Tests of what TensorFlow's ram:// does in another way than its local filesystem.
RAM_DIFFERS = {"test_of_two_who_append_the_second_is_told", "test_mkdir_without_a_parent"}


@pytest.fixture(params=["file", "memory", "s3", *map(long, ["ram", "s3+obstore", "gcs", "azure"])])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty folder, for ``tf.io.gfile``."""
    import tensorflow as tf

    from tfio_store.storage import Storage
    from tfio_store.tf.filesystem import register_filesystem

    if request.param == "ram" and request.function.__name__ in RAM_DIFFERS:
        pytest.skip("ram:// differs from the local filesystem here")
    if request.param == "file":
        yield str(tmp_path)
        return
    if request.param == "ram":
        url = f"ram://{uuid.uuid4().hex}"
    else:
        server, _, backend = request.param.partition("+")
        place: Place = request.getfixturevalue(server)
        scheme, _, path = place.url("root").partition("://")
        scheme = "gcs" if scheme == "gs" else scheme  # TensorFlow has gs:// itself
        options = place.storage_options
        register_filesystem(scheme, storage=Storage(options, backend=backend or "fsspec"))
        url = f"{scheme}://{path}"
    tf.io.gfile.makedirs(url)
    yield url


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    """The address of a tf.data service with two workers."""
    from tests.tf.two_workers import two_workers

    with two_workers() as address:
        yield address


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Three files of the records of `tests.tf.plans`, by codec."""
    import tensorflow as tf

    from tests.tf.plans import COUNT, example

    found: dict[str, list[str]] = {}
    for codec in ("", "GZIP"):
        folder = tmp_path_factory.mktemp(f"plan{codec}")
        names = []
        for part in range(3):
            name = str(folder / f"{part}.tfrecord")
            with tf.io.TFRecordWriter(name, codec) as writer:
                for i in range(part * COUNT // 3, (part + 1) * COUNT // 3):
                    writer.write(example(i))
            names.append(name)
        found[codec] = names
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Python's reader was asked for."""
    from tfio_store.tf.dataset import runtime
    from tfio_store.tf.dataset.options import StreamRequest

    found: list[str] = []
    open_stream = runtime._open

    def noted(asked: StreamRequest) -> Any:
        found.append(os.path.basename(asked.url))
        return open_stream(asked)

    monkeypatch.setattr(runtime, "_open", noted)
    return found
