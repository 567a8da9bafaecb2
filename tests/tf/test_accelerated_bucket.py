"""Unchanged code that reads a bucket under `accelerate`: as TensorFlow's class through the
filesystem, with the storage that the scheme was registered with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.tf.run_program import run

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

ROWS = 3000
SPEC = {"x": tf.io.FixedLenFeature([], tf.int64), "data": tf.io.FixedLenFeature([], tf.string)}


@pytest.fixture
def names(s3: Place, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shards of a dataset in a bucket that nobody reaches without the options given."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    dice = np.random.default_rng(1)
    rows = {"x": np.arange(ROWS), "data": [dice.bytes(6000) for _ in range(ROWS)]}
    url = f"{s3.root}/train"
    tfs.write_table(rows, url, num_shards=3, storage_options=s3.storage_options)
    tfs.register_filesystem("s3", storage_options=s3.storage_options)
    return [f"{url}-{i:05}-of-00003.tfrecord" for i in range(3)]


def parse(record: Any) -> Any:
    return tf.io.parse_single_example(record, SPEC)


def interleaved(names: list[str]) -> Any:
    found = tf.data.Dataset.from_tensor_slices(names)
    return found.interleave(tf.data.TFRecordDataset, cycle_length=3)


CHAINS: dict[str, tuple[Callable[[list[str]], Any], str]] = {
    "batch": (lambda names: tf.data.TFRecordDataset(names).map(parse).batch(32), ": fused"),
    "shuffle": (
        lambda names: tf.data.TFRecordDataset(names).shuffle(99).map(parse).batch(32), ": fused"),
    "shuffle of all": (
        lambda names: tf.data.TFRecordDataset(names).shuffle(10_000).map(parse).batch(32),
        ": fused"),
    "records": (lambda names: tf.data.TFRecordDataset(names).map(parse), ""),
    "in turns": (
        lambda names: tf.data.TFRecordDataset(names, num_parallel_reads=2).map(parse), ""),
    "interleave": (lambda names: interleaved(names).map(parse).batch(32), "in turns"),
    "interleave, shuffle": (
        lambda names: interleaved(names).shuffle(10_000).map(parse).batch(32),
        ": fused"),
}  # fmt: skip


@pytest.mark.parametrize("title", CHAINS)
def test_a_bucket_is_read_as_its_scheme_was_registered(names: list[str], title: str) -> None:
    make, verdict = CHAINS[title]
    theirs = make(names)
    with tfs.accelerate():
        ours = make(names)
    assert verdict in ours.explain()
    assert ours.element_spec == theirs.element_spec
    got, wanted = columns(ours), columns(theirs)
    if "shuffle" in str(title) or "windows" in title:
        assert not np.array_equal(got, np.arange(ROWS))
        got, wanted = np.sort(got), np.sort(wanted)
    np.testing.assert_array_equal(got, wanted)


def columns(dataset: Any) -> Any:
    return np.concatenate([np.atleast_1d(element["x"].numpy()) for element in dataset])


def ops_of(dataset: Any) -> str:
    return str(dataset._as_serialized_graph().numpy())


def test_what_is_not_fused_is_read_by_us(names: list[str]) -> None:
    with tfs.accelerate():
        dataset = tf.data.TFRecordDataset(names)
        turns = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset)
    assert "TFRecordDataset" not in ops_of(dataset)
    assert "TfioStore" in ops_of(dataset)
    assert "TfioStore" in ops_of(turns)


def test_a_name_that_is_made_in_the_function_is_tensorflows(names: list[str]) -> None:
    """It may be that of a file which other options reach."""

    def elsewhere(name: Any) -> Any:
        return tf.data.TFRecordDataset(tf.strings.regex_replace(name, "00001-of", "00000-of"))

    with tfs.accelerate():
        dataset = tf.data.Dataset.from_tensor_slices(names[1:2]).interleave(elsewhere)
    assert "TfioStore" not in ops_of(dataset)
    assert len(list(dataset)) == ROWS // 3


def test_files_that_are_missing_stay_tensorflows_error(s3: Place, names: list[str]) -> None:
    with tfs.accelerate():
        dataset = tf.data.TFRecordDataset([names[0], f"{s3.root}/none"])
        with pytest.raises(tf.errors.NotFoundError, match="none"):
            list(dataset)


WRONG: dict[str, tuple[Callable[[str], str], dict[str, str], Any]] = {
    "a name": (lambda root: f"{root}/none.tfrecord", {}, tf.errors.NotFoundError),
    "a bucket": (lambda root: f"{root}-none/none.tfrecord", {}, tf.errors.NotFoundError),
    "no credentials": (
        lambda root: f"{root}/x.tfrecord",
        {"key": "", "secret": ""},
        tf.errors.PermissionDeniedError,
    ),
}
MAKES: dict[str, Callable[[list[str]], Any]] = {
    "files": lambda names: tf.data.TFRecordDataset(names),
    "one of them": lambda names: tf.data.TFRecordDataset(names[0]),
    "in turns": lambda names: tf.data.TFRecordDataset(names, num_parallel_reads=2),
    "batches": lambda names: tf.data.TFRecordDataset(names).shuffle(100).batch(8),
    "an interleave": interleaved,
}

UNREGISTERED = """
import tensorflow as tf
tfs.accelerate()
from tests.tf.test_accelerated_bucket import MAKES
for title, make in MAKES.items():
    try:
        list(make(ARGS["names"]))
    except tf.errors.OpError as error:
        print(type(error).__name__, "not implemented" in str(error), ARGS["names"][0] in str(error))
"""


@pytest.mark.parametrize("what", WRONG)
def test_who_reads_gets_the_storages_own_error(s3: Place, what: str) -> None:
    """In a process that registered nothing, where TensorFlow does not know the scheme."""
    name, credentials, kind = WRONG[what]
    options = {**s3.storage_options, **credentials}
    env = {
        "AWS_ENDPOINT_URL": str(options["endpoint_url"]),
        "AWS_ACCESS_KEY_ID": str(options["key"]),
        "AWS_SECRET_ACCESS_KEY": str(options["secret"]),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    told = run(UNREGISTERED, env=env, names=[name(s3.root)])
    assert told.splitlines() == [f"{kind.__name__} False True"] * len(MAKES)
