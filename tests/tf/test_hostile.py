"""Numbers that no pipeline makes, but a damaged checkpoint, graph or server may tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.servers.hostile import Vast
from tests.servers.web import web_server
from tests.tf.run_program import run

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tfio_store.tf.dataset import ops  # noqa: E402
from tfio_store.tf.dataset.options import Settings  # noqa: E402

pytestmark = pytest.mark.tensorflow

MOST = 2**63 - 1


@pytest.mark.parametrize("codec", ["", "auto"])
@pytest.mark.parametrize(
    "position",
    [
        (0, 0, MOST),
        (0, 0, 1 << 40),
        (0, 0, MOST - 20),
        (0, MOST, 0),
        (0, MOST, MOST),
        (0, -1, 0),
        (2, 0, -1),
        (-1, 0, -1),
        (MOST, 0, -1),
    ],
)
def test_a_stream_refuses_a_position_that_is_none(
    tmp_path: Path, codec: str, position: tuple[int, int, int]
) -> None:
    path = str(tmp_path / "records")
    with tfs.TFRecordWriter(path) as writer:
        writer.write_batch([b"x" * 100] * 10)
    settings = Settings(max_record_bytes=MOST)

    @tf.function
    def read() -> Any:
        wanted = tf.constant(position, tf.int64)
        files, codecs = tf.constant([path]), tf.constant([codec])
        *_, error = ops.read_stream(files, codecs, tf.constant(""), wanted, settings)
        return ops.raise_error(error, "")

    with pytest.raises((tf.errors.DataLossError, tf.errors.InvalidArgumentError)):
        read()


@pytest.mark.parametrize("size", [2**64 - 1, 2**64 - 8, 2**63, 2**63 - 1])
def test_an_impossible_size_is_an_error_of_tensorflow(size: int) -> None:
    """What a web server claims of a file that TensorFlow reads."""
    with web_server(type("Claims", (Vast,), {"size": str(size)})) as web:
        out = run(
            """
            tfs.register_filesystem("http")
            def region():
                return tf.raw_ops.ImmutableConst(
                    dtype=tf.uint8, shape=[4], memory_region_name=ARGS["url"]
                )
            for read in (lambda: list(tf.data.TextLineDataset(ARGS["url"]).take(1)), region):
                try:
                    read()
                except tf.errors.OpError as fault:
                    print(type(fault).__name__)
            """,
            url=f"{web.endpoint}/x",
        )
    assert len(out.split()) == 2
