"""`mix_datasets`: several datasets as one, in the order of `tfio_store.mix`.

The choices are made by TensorFlow's own ops, from the same integers and by the same steps as in
`tfio_store.read.choices`. So iterators can be saved, and nothing is held for each record.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import tensorflow as tf

from tfio_store.dataset.checks import check_from_0
from tfio_store.read.choices import BLOCK, GOLDEN, MIXING, ONE, PAGE, TURN, Choices, weighted

_PAGES = 1 << 48


def mix_datasets(
    datasets: Iterable[tuple[tf.data.Dataset, float]],
    *,
    seed: int = 0,
    stop: str = "all",
    epoch: int = 0,
) -> tf.data.Dataset:
    """Mix datasets of tf.data by weight, in the order of `mix`.

    In the first 256 elements, the next 256, and so on, every dataset has its part, give or take
    one. With datasets that are not shuffled, the elements come as `mix` gives their records. Batch
    them behind it. Checkpoints save iterators.

    Args:
        datasets (list[tuple[tf.data.Dataset, float]]): Datasets of one element type, and their
            weights. Only the ratios of the weights count.
        seed (int): Another seed mixes in another order. Default 0.
        stop (str): When it ends; see `mix`. "all" (default) needs each dataset's cardinality, which
            a `TFRecordDataset` with a manifest or an index knows. "first" needs none; but then a
            dataset without elements ends it at once, unless its cardinality says that it is empty.
        epoch (int): The epoch of `mix` whose order it has, in every iteration. Default 0.

    Returns:
        tf.data.Dataset: Of the datasets' elements.

    Raises:
        TypeError: ``datasets`` holds no pairs of a dataset and its weight.
        ValueError: There is no dataset, a weight is not positive, or with "all" a cardinality is
            not known.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "a")
        >>> _ = tfs.write_table({"x": [4]}, "b")
        >>> first, second = tfs.TFRecordDataset("a"), tfs.TFRecordDataset("b")
        >>> mixed = tfs.mix_datasets([(first, 3), (second, 1)], seed=7)
        >>> list(mixed.as_numpy_iterator()) == list(tfs.mix({"a": 3, "b": 1}, seed=7))
        True
    """
    if stop not in ("all", "first"):
        raise ValueError(f'stop= takes "all" or "first", not {stop!r}')
    check_from_0("epoch", epoch)
    pairs = weighted("datasets", datasets)
    sources = [dataset for dataset, _ in pairs]
    for dataset in sources:
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(f"datasets= takes datasets of tf.data, not a {type(dataset).__name__}")
    choices = Choices(seed, tuple(weight for _, weight in pairs))
    counts = [int(dataset.cardinality()) for dataset in sources]
    chosen = _chosen(choices, epoch)
    if stop == "all":
        end = _end(choices, epoch, counts)
        chosen = chosen if end is None else chosen.take(end)
        sources = [dataset.repeat() for dataset in sources]
    elif not any(counts):
        chosen = chosen.take(0)
    if not all(counts):
        live = tf.constant([count != 0 for count in counts])
        chosen = chosen.filter(lambda source: live[source])
    return tf.data.Dataset.choose_from_datasets(
        sources, chosen, stop_on_empty_dataset=stop == "first"
    )


def _end(choices: Choices, epoch: int, counts: list[int]) -> int | None:
    """The place at which every dataset has been given whole; None if one never ends."""
    if tf.data.UNKNOWN_CARDINALITY in counts:
        number = counts.index(tf.data.UNKNOWN_CARDINALITY)
        raise ValueError(
            f'stop="all" needs the cardinality of each dataset, and that of number {number} is not '
            "known: set it by Dataset.apply(tf.data.experimental.assert_cardinality(n)), or "
            'pass stop="first"'
        )
    if tf.data.INFINITE_CARDINALITY in counts:
        return None
    if not any(counts):
        return 0
    return max(choices.place(epoch, source, count) for source, count in enumerate(counts))


def _chosen(choices: Choices, epoch: int) -> tf.data.Dataset:
    """The number of the dataset (tf.int64, shape []) from which each element comes."""
    return tf.data.Dataset.range(_PAGES).map(partial(_page, choices, epoch)).unbatch()


def _page(choices: Choices, epoch: int, number: tf.Tensor) -> tf.Tensor:
    """The choices of a page. See `Choices`."""
    phase, salt = choices.salts(epoch)
    blocks = number * (PAGE // BLOCK) + tf.range(PAGE // BLOCK, dtype=tf.int64)
    phases = (blocks * TURN + phase) % ONE
    points = tf.range(BLOCK, dtype=tf.int64) * ONE + phases[:, None]
    bounds = tf.constant(choices.bounds)
    chosen = tf.searchsorted(bounds, tf.reshape(points // BLOCK, [-1]), "right", tf.int64)
    places = tf.cast(number * PAGE + tf.range(PAGE, dtype=tf.int64), tf.uint64)
    keys = tf.reshape(tf.cast(_mixed(places, salt), tf.int64), [-1, BLOCK])
    order = tf.argsort(keys, stable=True)
    shuffled = tf.gather(tf.reshape(chosen, [-1, BLOCK]), order, batch_dims=1)
    return tf.reshape(shuffled, [PAGE])


def _mixed(places: tf.Tensor, salt: int) -> tf.Tensor:
    """See `tfio_store.read.choices`."""

    def number(value: int) -> tf.Tensor:
        return tf.constant(value, tf.uint64)

    def folded(keys: tf.Tensor, shift: int) -> tf.Tensor:
        return tf.bitwise.bitwise_xor(keys, tf.bitwise.right_shift(keys, number(shift)))

    keys = (places + number(1)) * number(GOLDEN) + number(salt)
    for shift, factor in MIXING:
        keys = folded(keys, shift) * number(factor)
    return tf.bitwise.right_shift(folded(keys, 31), number(1))
