"""Fused shuffles have TensorFlow's own order, record for record."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.long import first

tf = pytest.importorskip("tensorflow")

from tests.tf.saved import restored  # noqa: E402

pytestmark = pytest.mark.tensorflow

SIZES = [300, 0, 57, 411, 1]
COUNT = sum(SIZES)


def write(folder: Path, sizes: list[int], name: str = "f", length: int = 40) -> list[str]:
    files, number = [], 0
    for i, size in enumerate(sizes):
        files.append(str(folder / f"{name}{i}"))
        with tf.io.TFRecordWriter(files[-1]) as writer:
            for _ in range(size):
                writer.write(b"%06d" % number + bytes(number % length))
                number += 1
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write(tmp_path_factory.mktemp("order"), SIZES)


Chain = Callable[[Any, Any, list[str]], Any]
"""What a reader and a module with `list_files` make of files."""


def taken(dataset: Any) -> list[list[bytes]]:
    return [batch.numpy().tolist() for batch in dataset]


def three(chain: Chain, files: list[str]) -> list[Any]:
    """TensorFlow's dataset, ours, and the accelerated one."""
    native = chain(tf.data.TFRecordDataset, tf.data.Dataset, files)
    ours = chain(tfs.TFRecordDataset, tfs, files)
    with tfs.accelerate():
        accelerated = chain(tf.data.TFRecordDataset, tf.data.Dataset, files)
    return [native, ours, accelerated]


def check(chain: Chain, files: list[str], *, iterations: int = 2, fused: bool = True) -> None:
    native, *others = three(chain, files)
    for _ in range(iterations):
        wanted = taken(native)
        for each in others:
            assert taken(each) == wanted
    story = others[-1].explain()
    assert ("not fused" not in story) is fused, story


CHAINS: dict[str, Chain] = {
    "shuffle": lambda read, _, files: read(files).shuffle(100, seed=7).batch(32),
    "the same order for good": lambda read, _, files: (
        read(files).shuffle(100, seed=7, reshuffle_each_iteration=False).batch(32)),
    "epochs": lambda read, _, files: read(files).shuffle(100, seed=7).batch(32).repeat(3),
    "no rest": lambda read, _, files: read(files).shuffle(99, 7).batch(32, True).repeat(3),
    "read ahead": lambda read, _, files: (
        read(files).prefetch(4).shuffle(50, 3).batch(32).prefetch(2)),
    "files in turns": lambda read, _, files: (
        read(files, num_parallel_reads=3).shuffle(100, seed=7).batch(32)),
    "interleave": lambda read, _, files: (
        tf.data.Dataset.from_tensor_slices(files).interleave(read, 3, 4).shuffle(90, 1).batch(32)),
    "interleave in parallel": lambda read, _, files: (
        tf.data.Dataset.from_tensor_slices(files)
        .interleave(read, 2, 3, tf.data.AUTOTUNE).shuffle(90, 1).batch(32)),
    "listed with a seed": lambda read, listing, files: (
        listing.list_files(f"{files[0][:-1]}?", seed=5).interleave(read, 3, 4)
        .shuffle(100, seed=7).batch(32).repeat(3)),
    "listed and flattened": lambda read, listing, files: (
        listing.list_files(f"{files[0][:-1]}?", seed=5).flat_map(read)
        .shuffle(100, seed=7).batch(32).repeat(2)),
    "names are shuffled by hand": lambda read, _, files: (
        tf.data.Dataset.from_tensor_slices(files).shuffle(2, 9).interleave(read, 2)
        .shuffle(64, 7).batch(32).repeat(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_fused_shuffle_has_tensorflows_order(files: list[str], name: str) -> None:
    check(CHAINS[name], files)


def test_a_dataset_of_names_has_tensorflows_order(files: list[str]) -> None:
    def chain(read: Any, listing: Any, files: list[str]) -> Any:
        names = listing.list_files(f"{files[0][:-1]}?", seed=5)
        return read(names, num_parallel_reads=2).shuffle(77, seed=7).batch(32)

    native, ours, _ = three(chain, files)
    assert "not fused" not in ours.explain()
    for _ in range(2):
        assert taken(ours) == taken(native)


@pytest.mark.parametrize("buffer", [1, 2, 100])
def test_a_shuffle_before_another_one_draws_its_seeds_when_it_is_read(
    files: list[str], buffer: int
) -> None:
    """A repeat makes one more iterator than it reads."""
    chain: Chain = lambda read, _, files: (  # noqa: E731
        read(files).shuffle(100, seed=7).shuffle(buffer, seed=5).batch(32).repeat(2))  # fmt: skip
    check(chain, files, iterations=3, fused=False)


@pytest.mark.parametrize("buffer", [1, 2, 31, 32, 33, COUNT - 1, COUNT, COUNT + 1, 10 * COUNT])
def test_any_buffer_has_tensorflows_order(files: list[str], buffer: int) -> None:
    def chain(read: Any, _: Any, files: list[str]) -> Any:
        return read(files).shuffle(buffer, seed=11).batch(32).repeat(2)

    check(chain, files, fused=buffer > 1)


@pytest.mark.parametrize("seed", first(3, [0, 1, -1, 2**31 - 1, 2**40 + 5, 12345]))
def test_any_seed_has_tensorflows_order(files: list[str], seed: int) -> None:
    check(lambda read, _, files: read(files).shuffle(64, seed=seed).batch(32), files, iterations=3)


@pytest.mark.parametrize(
    "sizes", first(2, [[1], [31], [32], [33], [64], [5, 0, 0, 0, 40], [0, 0, 70], [1] * 70])
)
def test_any_count_has_tensorflows_order(tmp_path: Path, sizes: list[int]) -> None:
    files = write(tmp_path, sizes)
    for cycle, length in itertools.product([1, 2, 5], [1, 3]):

        def chain(read: Any, _: Any, files: list[str], how: Any = (cycle, length)) -> Any:
            names = tf.data.Dataset.from_tensor_slices(files)
            return names.interleave(read, *how).shuffle(30, seed=3).batch(32)

        native, *others = three(chain, files)
        for _ in range(2):
            wanted = taken(native)
            assert all(taken(each) == wanted for each in others)


def test_pictures_keep_their_labels(tmp_path: Path) -> None:
    """Two sets of files that belong together are shuffled by one seed."""
    pictures, labels = write(tmp_path, [500, 500], "p"), write(tmp_path, [500, 500], "l", 7)

    def pairs(read: Any) -> list[tuple[bytes, bytes]]:
        both = [read(files).shuffle(200, seed=4).batch(16) for files in (pictures, labels)]
        return [
            (one[:6], other[:6])
            for a, b in tf.data.Dataset.zip(tuple(both)).as_numpy_iterator()
            for one, other in zip(a.tolist(), b.tolist(), strict=True)
        ]

    with tfs.accelerate():
        accelerated = pairs(tf.data.TFRecordDataset)
    for found in (pairs(tfs.TFRecordDataset), accelerated):
        assert len(found) == 1000
        assert all(picture == label for picture, label in found)
    assert accelerated == pairs(tf.data.TFRecordDataset)


@pytest.mark.parametrize("again", [True, False])
def test_a_split_by_a_seed_shares_no_record(files: list[str], again: bool) -> None:
    """One part is fused, and the other is not."""

    def parts(read: Any) -> list[set[bytes]]:
        def whole() -> Any:
            return read(files).shuffle(COUNT, seed=2, reshuffle_each_iteration=again)

        training = whole().skip(100).map(lambda record: (record, tf.random.uniform([]))).batch(32)
        validation = whole().batch(100).take(1)
        found = [{x for batch, _ in training for x in batch.numpy().tolist()}]
        return [*found, {x for batch in validation for x in batch.numpy().tolist()}]

    with tfs.accelerate():
        training, validation = parts(tf.data.TFRecordDataset)
    assert len(training) == COUNT - 100
    assert len(validation) == 100
    assert not training & validation


def test_views_of_one_shuffle_take_their_seeds_in_turn(files: list[str]) -> None:
    """As TensorFlow's, which share a generator, fused or not."""

    def views(read: Any) -> list[Any]:
        shuffled = read(files).shuffle(100, seed=5)
        fused, other = shuffled.batch(32), shuffled.take(50).batch(5)
        return [taken(each) for each in (fused, other, fused, other, shuffled.batch(64))]

    wanted = views(tf.data.TFRecordDataset)
    assert views(tfs.TFRecordDataset) == wanted
    with tfs.accelerate():
        assert views(tf.data.TFRecordDataset) == wanted


def test_iterators_that_live_at_once_take_the_next_seeds(files: list[str]) -> None:
    def mixed(read: Any) -> list[Any]:
        dataset = read(files).shuffle(100, seed=5).batch(32)
        one, other = iter(dataset), iter(dataset)
        found = [next(it).numpy().tolist() for it in (one, other, other, one)]
        return [*found, taken(dataset), taken(one), taken(other)]

    wanted = mixed(tf.data.TFRecordDataset)
    assert mixed(tfs.TFRecordDataset) == wanted


def test_global_seeds_count_when_the_shuffle_is_made(files: list[str]) -> None:
    """Not when it is iterated, and each shuffle without a seed takes the next one."""

    def chain(read: Any, _: Any, files: list[str]) -> Any:
        tf.random.set_seed(11)
        parts = [read(files).shuffle(60).batch(32), read(files).shuffle(60, seed=7).batch(32)]
        tf.random.set_seed(12)
        return tf.data.Dataset.zip((*parts, read(files).shuffle(60).batch(32)))

    native, *others = three(chain, files)
    try:
        for _ in range(2):
            wanted = [[part.tolist() for part in each] for each in native.as_numpy_iterator()]
            for each in others:
                found = [[part.tolist() for part in one] for one in each.as_numpy_iterator()]
                assert found == wanted
    finally:
        tf.random.set_seed(None)


def test_without_a_seed_the_order_is_another_each_time(files: list[str]) -> None:
    orders = [taken(tfs.TFRecordDataset(files).shuffle(100).batch(32)) for _ in range(3)]
    assert orders[0] != orders[1] != orders[2]
    dataset = tfs.TFRecordDataset(files).shuffle(100).batch(32)
    assert taken(dataset) != taken(dataset)


def test_without_a_seed_two_views_agree_on_an_order_for_good(files: list[str]) -> None:
    shuffled = tfs.TFRecordDataset(files).shuffle(COUNT, reshuffle_each_iteration=False)
    fused = [x for batch in taken(shuffled.batch(32)) for x in batch]
    other = [x for batch in taken(shuffled.take(100).batch(7)) for x in batch]
    assert fused[:100] == other


def test_turns_that_hang_on_threads_are_not_fused_by_a_seed(files: list[str]) -> None:
    names = tf.data.Dataset.from_tensor_slices(files)
    with tfs.accelerate():
        read = tf.data.TFRecordDataset
        seeded = names.interleave(read).shuffle(50, seed=3).batch(32)
        free = names.interleave(read).shuffle(50).batch(32)
    assert "depends on its threads" in seeded.explain()
    assert "not fused" not in free.explain()


def test_no_number_is_drawn_in_vain(files: list[str]) -> None:
    """Before a `batch` TensorFlow runs a map ahead of what is taken; before `padded_batch` not."""

    def chain(read: Any, module: Any, files: list[str]) -> Any:
        drawn = read(files).map(lambda record: tf.random.uniform([2], seed=7))
        return drawn.padded_batch(7).take(1).repeat(20)

    native, *others = three(chain, files)
    wanted = taken(native)
    assert [taken(each) for each in others] == [wanted] * 2


def test_a_share_has_tensorflows_elements(files: list[str]) -> None:
    def shares(read: Any) -> list[list[bytes]]:
        return [list(read(files).shard(3, i).as_numpy_iterator()) for i in range(3)]

    assert shares(tfs.TFRecordDataset) == shares(tf.data.TFRecordDataset)


def test_a_shuffle_of_large_pictures_is_fused(tmp_path: Path) -> None:
    """Of more bytes than `memory_budget`: they wait as in TensorFlow's buffer."""
    path = str(tmp_path / "pictures")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(100):
            writer.write(b"%06d" % i + bytes(100_000))

    def chain(read: Any) -> Any:
        return read(path).shuffle(10_000, seed=1).batch(16)

    ours = chain(lambda path: tfs.TFRecordDataset(path, memory_budget=1 << 20))
    assert "not fused" not in ours.explain()
    assert taken(ours) == taken(chain(tf.data.TFRecordDataset))


def test_damage_under_ignore_errors_has_tensorflows_order(tmp_path: Path) -> None:
    files = write(tmp_path, [200, 200, 200])
    data = bytearray(Path(files[1]).read_bytes())
    data[len(data) // 2] ^= 1
    Path(files[1]).write_bytes(data)

    def chain(read: Any, _: Any, files: list[str]) -> Any:
        return read(files).shuffle(50, seed=3).batch(32).ignore_errors()

    native, _, accelerated = three(chain, files)
    assert taken(accelerated) == taken(native)


@pytest.mark.parametrize("kind", ["one after the other", "in turns"])
def test_a_restored_iterator_goes_on_exactly(files: list[str], tmp_path: Path, kind: str) -> None:
    """In a new dataset, as in a process that was started again."""
    if kind == "in turns" and tf.__version__.startswith("2.16."):
        pytest.skip("it forgets where the shuffle of names is, of its own pipelines too")

    def make() -> Any:
        if kind == "in turns":
            listed = tfs.list_files(f"{files[0][:-1]}?", seed=5)
            found = listed.interleave(tfs.TFRecordDataset, 3)
        else:
            found = tfs.TFRecordDataset(files)
        return found.shuffle(100, seed=7).batch(32).repeat(3)

    whole = taken(make())
    for position in random.Random(1).sample(range(len(whole) + 1), 8):
        _, fresh = restored(make(), position, tmp_path, make())
        assert taken(fresh) == whole[position:], position


def test_the_restored_order_takes_no_data_that_was_passed(tmp_path: Path) -> None:
    """The picks of an epoch are found anew, without its records: a file that was read is gone."""
    files = write(tmp_path, [3000] * 4, length=400)

    def make() -> Any:
        return tfs.TFRecordDataset(files).shuffle(10, seed=7).batch(32)

    whole = taken(make())
    iterator = iter(make())
    for _ in range(200):
        next(iterator)
    path = tf.train.Checkpoint(it=iterator).write(str(tmp_path / "saved"))
    fresh = iter(make())
    Path(files[0]).unlink()
    tf.train.Checkpoint(it=fresh).read(path)
    assert taken(fresh) == whole[200:]


def test_a_state_of_tensorflows_own_pipeline_is_refused(files: list[str], tmp_path: Path) -> None:
    def saved(dataset: Any, name: str) -> str:
        iterator = iter(dataset)
        next(iterator)
        path: str = tf.train.Checkpoint(it=iterator).write(str(tmp_path / name))
        return path

    def shuffled(read: Any) -> Any:
        return read(files).shuffle(100, seed=7).batch(32)

    native, ours = shuffled(tf.data.TFRecordDataset), shuffled(tfs.TFRecordDataset)
    theirs, own = saved(native, "theirs"), saved(ours, "own")
    with tfs.accelerate():
        accelerated = shuffled(tf.data.TFRecordDataset)
    for each in (ours, accelerated):
        with pytest.raises(tf.errors.NotFoundError, match="saved without tfio_store"):
            tf.train.Checkpoint(it=iter(each)).read(theirs)
    with pytest.raises(tf.errors.NotFoundError, match="Failed to restore dataset iterator"):
        tf.train.Checkpoint(it=iter(native)).read(own)
    fresh = iter(accelerated)
    tf.train.Checkpoint(it=fresh).read(own)
    assert taken(fresh) == taken(shuffled(tf.data.TFRecordDataset))[1:]
