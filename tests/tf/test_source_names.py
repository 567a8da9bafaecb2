"""Names of sources in tf.data: the same as everywhere, and the same errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.named import MEANINGS, MISTAKES, file_names, put_in


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return put_in(tmp_path_factory.mktemp("named"))


def records(dataset: tf.data.Dataset) -> list[bytes]:
    return list(dataset.as_numpy_iterator())


def named(name: str, folder: str) -> str:
    return name.format(*[f"{folder}/"] * 9)


def test_meanings(folder: str) -> None:
    for name, files in MEANINGS.items():
        found = records(tfs.TFRecordDataset(named(name, folder)))
        assert file_names(found) == files, name


def test_meanings_in_list_files(folder: str) -> None:
    for name, files in MEANINGS.items():
        found = records(tfs.list_files(named(name, folder), shuffle=False))
        assert [each.decode() for each in found] == sorted(f"{folder}/{file}" for file in files)


@pytest.mark.parametrize(
    "made",
    [
        lambda name: tfs.TFRecordDataset(name),
        lambda name: tfs.TFRecordDataset(name).shuffle(9).batch(2),
        lambda name: tfs.list_files(name),
    ],
)
def test_a_pattern_that_would_find_a_missing_shard_says_so(
    tmp_path: Path, made: Callable[[str], Any]
) -> None:
    for i in (0, 2):
        (tmp_path / f"part-{i:05d}-of-00003.tfrecord").write_bytes(framed([b"1"]))
    for pattern in ("*.tfrecord", "part-?????-of-00003.tfrecord"):
        with pytest.warns(RuntimeWarning, match="1 of its 3 shards is missing: shard 1"):
            records(made(f"{tmp_path}/{pattern}"))


def straight(name: str) -> Any:
    return tfs.TFRecordDataset(name)


def batched(name: str) -> Any:
    return tfs.TFRecordDataset(name).batch(2)


def mapped(name: str) -> Any:
    return tfs.TFRecordDataset(name).map(tf.strings.length).prefetch(1)


def by_tensors(name: str) -> Any:
    return tfs.TFRecordDataset(tf.data.Dataset.from_tensor_slices([name]))


@pytest.mark.parametrize("made", [straight, batched, mapped, by_tensors])
def test_mistakes(folder: str, made: Callable[[str], Any]) -> None:
    """tf.data makes the dataset, and fails when it is read. The text is that of all doors."""
    errors = {
        FileNotFoundError: tf.errors.NotFoundError,
        IsADirectoryError: tf.errors.FailedPreconditionError,
    }
    some = slice(None, None, 1 if made is straight else 4)
    for name, (kind, _) in list(MISTAKES.items())[some]:
        source = named(name, folder)
        with pytest.raises(kind) as expected:
            tfs.open(source)
        dataset = made(source)
        with pytest.raises(errors[kind]) as caught:
            next(iter(dataset))
        # a step that TensorFlow makes alone has TensorFlow's iterators
        begins = caught.value.message.startswith(str(expected.value))
        assert begins or (made is mapped and str(expected.value) in caught.value.message), name


def test_what_only_one_name_of_a_tensor_can_be(folder: str) -> None:
    dataset = by_tensors(f"{folder}/ydf/ds@2")
    with pytest.raises(tf.errors.NotFoundError, match="must be known before the graph"):
        next(iter(dataset))


def test_damage_begins_with_its_text(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    for take in (next, lambda iterator: iterator.get_next()):
        with pytest.raises(tf.errors.DataLossError) as caught:
            take(iter(tfs.TFRecordDataset(str(path))))
        assert caught.value.message.startswith(f"{path}: ")
        assert "looks like a PNG image" in caught.value.message


def test_an_iterator_is_still_tensorflows(tmp_path: Path) -> None:
    """It is saved, restored, and passed to functions as theirs is."""
    (tmp_path / "x").write_bytes(framed([b"1", b"2", b"3"]))
    dataset = tfs.TFRecordDataset(str(tmp_path / "x"))
    iterator = iter(dataset)
    assert isinstance(iterator, tf.data.Iterator)
    assert isinstance(iterator, type(iter(tf.data.Dataset.range(1))))
    assert next(iterator).numpy() == b"1"
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    saved = checkpoint.save(str(tmp_path / "saved"))
    assert next(iterator).numpy() == b"2"
    checkpoint.restore(saved)
    take: Any = tf.function(lambda each: each.get_next())
    assert take(iterator).numpy() == b"2"
    assert [each.numpy() for each in iterator] == [b"3"]
    assert iterator.get_next_as_optional().has_value().numpy() == False  # noqa: E712


def test_save_and_load_by_number(tmp_path: Path) -> None:
    tfs.save(tf.data.Dataset.range(6), tmp_path / "n@3")
    assert len(tfs.open(tmp_path / "n").shards) == 3
    assert sorted(tfs.load(tmp_path / "n@3").as_numpy_iterator()) == list(range(6))
    with pytest.raises(ValueError, match="num_shards= is 2"):
        tfs.save(tf.data.Dataset.range(6), tmp_path / "m@3", num_shards=2)
