"""URLs that carry their own right of access: they open, and errors do not repeat the signature."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.web import Handler, web_server
from tests.support.framed import framed

RECORDS = [b"%d" % i for i in range(100)]
SIGNATURE = "X-Amz-Signature=0123456789abcdef"


class Bucket(Handler):
    """Answers to who has the signature."""

    def answer(self, *, head: bool) -> None:
        self.path, _, query = self.path.partition("?")
        if SIGNATURE in query:
            super().answer(head=head)
        else:
            self.send(403, b"", {}, head=head)


@pytest.fixture
def url() -> Iterator[str]:
    with web_server(Bucket) as web:
        web.files["/part.tfrecord"] = framed(RECORDS)
        yield f"{web.endpoint}/part.tfrecord?{SIGNATURE}&x=1"


def test_a_signed_url_opens(url: str) -> None:
    assert list(tfs.RecordReader(url)) == RECORDS
    assert list(pickle.loads(pickle.dumps(tfs.RecordReader(url)))) == RECORDS
    source = tfs.RecordSource(url)
    assert (len(source), source[5]) == (100, b"5")
    assert "0123456789abcdef" not in repr(source)


@pytest.mark.tensorflow
def test_a_signed_url_opens_in_tensorflow(url: str) -> None:
    assert [record.numpy() for record in tfs.TFRecordDataset(url)] == RECORDS
    batches = [list(batch.numpy()) for batch in tfs.TFRecordDataset(url, batch_size=50)]
    assert batches == [RECORDS[:50], RECORDS[50:]]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": 50, "schema": {"x": "int64"}}, "is not a tf.train.Example"),
        ({"shuffle": True, "batch_size": 50, "schema": {"x": "int64"}}, "not a tf.train.Example"),
        ({"batch_size": 50, "max_record_bytes": 1}, "claims 2 bytes"),
        ({"max_record_bytes": 1}, "claims 2 bytes"),
    ],
)
@pytest.mark.parametrize("user", ["", "somebody:0123456789abcdef@"])
@pytest.mark.parametrize("query", ["", "&response-content-disposition=attachment; filename=x"])
def test_the_ops_errors_do_not_tell_the_signature(
    url: str, user: str, query: str, options: dict[str, Any], says: str
) -> None:
    import tensorflow as tf

    if "schema" in options:
        options = {**options, "schema": {"x": tf.io.FixedLenFeature([], tf.int64)}}
    if query:  # in front of the signature
        url = url.replace("?", "?" + query[1:] + "&")
    dataset = tfs.TFRecordDataset(url.replace("http://", "HTTP://" + user), **options)
    with pytest.raises(tf.errors.OpError, match=says) as caught:
        list(dataset)
    assert "part.tfrecord" in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


def test_damage_is_told_without_the_signature(url: str) -> None:
    damaged = tfs.RecordReader(url, max_record_bytes=1)
    with pytest.raises(tfs.errors.RecordTooLargeError) as caught:
        list(damaged)
    assert "part.tfrecord" in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


def test_a_split_that_a_folder_lacks_is_named_without_the_signature(tmp_path: Path) -> None:
    folder = tmp_path / "set" / "1.0.0"
    tfs.write_tfds(folder, [{"a": 1}], {"a": "int64"}, num_shards=1)
    with web_server() as web:
        web.files = {f"/set/{each.name}": each.read_bytes() for each in folder.iterdir()}
        with pytest.raises(ValueError, match="has no split 'test") as caught:
            tfs.RecordReader(f"{web.endpoint}/set/test?{SIGNATURE}")
    assert "0123456789abcdef" not in str(caught.value)
