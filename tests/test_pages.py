"""The Python of pages that name a bucket runs as it stands, on a server of S3.

test_documents.py runs what needs no bucket; tests/training and tests/engines run the pages of the
frameworks.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.pages import blocks_of
from tests.test_documents import blocks

Names = dict[str, Any]


def run(page: str, bucket: Place, names: Names, *, only: slice = slice(None)) -> Names:
    for number, block in enumerate(blocks(page)[only]):
        execute(block.replace("s3://bucket", bucket.root), f"{page}, block {number}", names)
    return names


def execute(code: str, where: str, names: Names) -> None:
    names.setdefault("tfs", tfs)
    exec(compile(code, where, "exec"), names)


def test_writing(bucket: Place) -> None:
    """An engine stands between the tasks and the commit."""
    job, cleaning = (text.replace("s3://bucket", bucket.root) for text in blocks("docs/writing.md"))
    begin, commit = job.split("\n\n\njob.commit")
    names: Names = {"schema": {"x": "int64"}}
    execute(begin, "docs/writing.md, job", names)
    task, made = names["task"], names["job"]
    names["results"] = [task(made, i, [{"x": 2 * i}, {"x": 2 * i + 1}]) for i in range(3)]
    execute("job.commit" + commit, "docs/writing.md, commit", names)
    assert tfs.read_table(bucket.url("ds/train"))["x"].tolist() == list(range(6))
    execute(cleaning, "docs/writing.md, cleaning", names)
    assert tfs.read_table(bucket.url("ds/train"))["x"].tolist() == list(range(6))


def test_tables(bucket: Place) -> None:
    """All but the queries, which tests/training runs."""
    pd, image = pytest.importorskip("pandas"), pytest.importorskip("PIL.Image")
    jpeg = io.BytesIO()
    image.new("RGB", (4, 3)).save(jpeg, "JPEG")
    frame = pd.DataFrame({"price": [1.5, 2.5], "label": ["cat", "dog"]})
    run("docs/tables.md", bucket, {"frame": frame}, only=slice(1))
    assert (
        tfs.read_table(bucket.url("train")).to_pandas().equals(frame.astype({"price": "float32"}))
    )
    names = {"jpeg_of_a_dog": jpeg.getvalue(), "jpeg_of_a_cat": jpeg.getvalue()}
    images = blocks("docs/tables.md")[-1].replace("s3://bucket/train", bucket.url("images"))
    execute(images, "docs/tables.md, images", dict(names))


@pytest.mark.tensorflow
def test_growing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: Names = {"URL": f"{tmp_path}/train"}
    for number, block in enumerate(blocks_of("docs/growing.md", "python")):
        execute(block, f"docs/growing.md, block {number}", names)
    assert capsys.readouterr().out == "".join(blocks_of("docs/growing.md", "console"))


def test_storage(bucket: Place) -> None:
    bucket.put("ds/x", b"abc")
    names: Names = {}
    block = blocks("docs/storage.md")[0]
    block = block.replace("s3://bucket", bucket.root).replace('"..."', f'"{bucket.endpoint}"')
    execute(block, "docs/storage.md", names)
    assert names["future"].result() == b"abc"
    names["output"].abort()


def test_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("docs/index.md")
    execute(block, "docs/index.md", {})
    assert len(tfs.RecordSource("train")) == 1000


@pytest.mark.tensorflow
def test_tfdata(bucket: Place) -> None:
    import tensorflow as tf

    place = bucket.url("set/train")
    tfs.write_table({"x": np.arange(1000)}, place, num_shards=2)
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    names: Names = {
        "tf": tf,
        "spec": {"x": tf.io.FixedLenFeature([], tf.int64)},
        "config": tf.data.experimental.service.WorkerConfig(dispatcher_address=address),
        "source": place,
        "strategy": tf.distribute.OneDeviceStrategy("CPU:0"),
    }
    run("docs/tfdata.md", bucket, names)
    seen = [x for batch in names["dataset"] for x in batch["x"].numpy().tolist()]
    assert sorted(seen) == list(range(1000))


@pytest.mark.tensorflow
def test_filesystem(bucket: Place) -> None:
    """In a process of its own: TensorFlow does not forget a filesystem."""
    from tests.tf.run_program import run as run_program

    bucket.put("x", b"abc")
    registered = "".join(blocks("docs/filesystem.md"))
    given = """
import fsspec
from fsspec.implementations.memory import MemoryFileSystem
fsspec.register_implementation("hf", MemoryFileSystem, clobber=True)
def HfFileSystem(token): return MemoryFileSystem()
"""
    registered = registered.replace("http://minio:9000", bucket.endpoint)
    looked = f"print(tf.io.gfile.GFile('{bucket.url('x')}').read())"
    assert run_program(given + registered + looked) == "abc\n"
