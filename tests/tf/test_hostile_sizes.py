"""A web server that claims impossible sizes, read as a file of TensorFlow."""

from __future__ import annotations

import pytest

from tests.servers.hostile import Vast
from tests.servers.web import web_server
from tests.tf.run_program import run

pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("size", [2**64 - 1, 2**64 - 8, 2**63, 2**63 - 1])
def test_an_impossible_size_is_an_error_of_tensorflow(size: int) -> None:
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
