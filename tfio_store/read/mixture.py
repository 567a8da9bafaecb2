"""`mix`: several sources read as one, each with its weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.model import MEMORY_BUDGET, Dataset
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.example.codec import is_list_of_numbers
from tfio_store.read.choices import Choices, weighted
from tfio_store.read.decode import OnCorrupt, check_policy
from tfio_store.read.mixed import (
    MixedPosition,
    MixedTraversal,
    first_epoch,
    mixture_epoch,
)
from tfio_store.read.order import Share, Shuffle, Step
from tfio_store.read.traversal import Iterated, ReaderOptions, Shared
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.texts import alike
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage

__all__ = ["Mixture", "datasets_of", "mix"]

_WINDOW = 16


def mix(
    sources: Mapping[Any, float] | Iterable[tuple[Source, float]],
    *,
    seed: int = 0,
    stop: str = "all",
    by: str | None = None,
    compression: str | None = "auto",
    verify: bool = True,
    on_corrupt: OnCorrupt = "raise",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    memory_budget: int = MEMORY_BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    threads: int | None = None,
) -> Mixture:
    """Read several sources as one, so many records of each as its weight says.

    Which source a record comes from depends on ``seed``, the epoch and the record's place alone. In
    the first 256 records, the next 256, and so on, every source has its part, give or take one.
    Within a source, the records keep its order: call `Mixture.shuffle` to shuffle each.

    Args:
        sources (dict | list): Sources and their weights: ``{source: weight}``, or a list of
            ``(source, weight)``. See `RecordReader` for what a source is. Only the ratios of the
            weights count.
        seed (int): Another seed mixes in another order. Default 0.
        stop (str): When an epoch ends. "all" (default): when every source has been given whole. One
            that ends sooner begins anew, in the order of its next epoch, so that its records come
            again. "first": when the first source has been given whole. Of the others, the records
            that are left are not given in this epoch. In both cases it ends where the next record
            of that source would come. Sources without records are passed over.
        by (str | None): What the weights count. Default None: records. The name of a feature of
            numbers, such as "tokens": its values. Then the next record comes from the source that
            is behind most, so that the values of each keep to its weight, give or take one record.
            A record without values counts as one. ``seed`` has no part in that.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        on_corrupt (str | Callable): See `RecordReader`. Default "raise".
        storage_options (dict | None): See `RecordReader`, for all sources. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        memory_budget (int): Bytes for all sources together. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        threads (int | None): See `RecordReader`. Default None.

    Returns:
        Mixture: It stands at the beginning of the first epoch.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ManifestError: A manifest or index cannot be read, or contradicts its dataset.
        TypeError: ``sources`` holds no pairs of a source and its weight.
        ValueError: An argument is not as described, or ``by`` names no list of numbers of a source.

    Example:
        >>> _ = tfs.write_table({"x": list(range(900))}, "web")
        >>> _ = tfs.write_table({"x": list(range(100))}, "books")
        >>> mixture = tfs.mix({"web": 3, "books": 1}, seed=7).shuffle(seed=1)
        >>> len(list(mixture)) >= 1000, mixture.num_records >= 1000
        (True, True)
    """
    if stop not in ("all", "first"):
        raise ValueError(f'stop= takes "all" or "first", not {stop!r}')
    pairs = weighted("sources", sources)
    choices = Choices(seed, tuple(weight for _, weight in pairs))
    storage = given_storage(storage_options, storage)
    check_positive("memory_budget", memory_budget)
    budget = max(1, memory_budget // len(pairs))
    options = ReaderOptions(
        verify, check_policy(on_corrupt), budget, max_record_bytes, threads=threads
    )
    shared = [
        Shared(open_dataset(source, storage, compression=compression, limits=options.limits))
        for source, _ in pairs
    ]
    if by is not None:
        for one in shared:
            _check_measured(by, one.dataset)
    at_first = MixedPosition.at_first(0, len(shared))
    return Mixture._made(choices, stop, shared, options, at_first, by)


def _check_measured(by: str, dataset: Dataset) -> None:
    """ValueError unless it is a list of numbers in this source, as far as that is known."""
    if dataset.schema is None:
        return
    feature = dataset.schema.get(by)
    if feature is None:
        what = f"{dataset.summary()} has no such feature{alike(by, dataset.schema)}"
    elif not is_list_of_numbers(feature):
        what = f"in {dataset.summary()} it is {feature!r}"
    else:
        return
    raise ValueError(f"by={by!r} takes a feature of numbers of the shape (None,): {what}")


class Mixture(Iterated):
    """Several sources read as one, as `mix` makes it.

    It is used as a `RecordReader` is: a cursor, whose whole ``for`` loops are epochs. Use it in one
    thread at a time. It pickles with its cursor, and works on in a forked child.

    Raises:
        TypeError: The class is called.
        ValueError: The mixture is closed.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "folder/a")
        >>> _ = tfs.write_table({"x": [4, 5, 6]}, "folder/b")
        >>> with tfs.mix({"folder/a": 1, "folder/b": 1}) as mixture:
        ...     len(set(mixture))
        6
    """

    _traversal: MixedTraversal

    def __init__(self) -> None:
        raise TypeError("tfio_store.mix makes mixtures")

    @classmethod
    def _made(
        cls,
        choices: Choices,
        stop: str,
        shared: Sequence[Shared],
        options: ReaderOptions,
        position: MixedPosition,
        by: str | None = None,
    ) -> Mixture:
        traversal = MixedTraversal(choices, stop, shared, options, position, by)
        return cls.__new__(cls)._begin(traversal)

    def __repr__(self) -> str:
        datasets = "; ".join(dataset.summary() for dataset in datasets_of(self))
        return f"<Mixture {self._traversal.choices} of {datasets}>"

    @property
    def num_records(self) -> int | None:
        """How many records the epoch at which the mixture stands has in all (int | None).

        None where that of a source cannot be known, in the rest of an epoch that was resharded, and
        where the weights are ``by`` a feature.
        See `RecordReader.num_records`.
        """
        self._traversal.check_open()
        return self._traversal.num_records()

    # Order and sharing

    def shard(self, index: int, count: int, *, even: str | None = None) -> Mixture:
        """Make a mixture of one of ``count`` shares of each source.

        Args:
            index (int): See `RecordReader.shard`.
            count (int): See `RecordReader.shard`.
            even (str | None): See `RecordReader.shard`. Every share of the mixture has the same
                number of records, too. Default None.

        Returns:
            Mixture: It stands at the beginning of its share.

        Raises:
            ValueError: See `RecordReader.shard`; or the weights are ``by`` a feature, and ``even``
                is not None.

        Example:
            >>> _ = tfs.write_table({"x": list(range(30))}, "a")
            >>> _ = tfs.write_table({"x": list(range(10))}, "b")
            >>> mixture = tfs.mix({"a": 3, "b": 1})
            >>> len({len(list(mixture.shard(i, 4, even="pad"))) for i in range(4)})
            1
        """
        step = Share(index, count, even)
        if even is not None and self._traversal.by is not None:
            raise ValueError(
                f"even={even!r} is not for a mixture by={self._traversal.by!r}: only what the "
                "records hold says how many are given"
            )
        return self._with_step(step)

    def shuffle(self, seed: int, *, epoch: int = 0, window: int | None = None) -> Mixture:
        """Make a mixture whose sources are shuffled, each for itself.

        Args:
            seed (int): See `RecordReader.shuffle`.
            epoch (int): The first epoch to give, of the mixture. Default 0.
            window (int | None): MiB of memory for each source; see `RecordReader.shuffle`. Default
                None: 16, or less where many sources share the memory budget.

        Returns:
            Mixture: It stands at the beginning of ``epoch``.

        Raises:
            ValueError: See `RecordReader.shuffle`.

        Example:
            >>> _ = tfs.write_table({"x": list(range(30))}, "a")
            >>> mixture = tfs.mix({"a": 1}).shuffle(seed=5)
            >>> list(mixture) == list(mixture)
            False
        """
        budget = self._traversal.options.memory_budget
        step = Shuffle(seed, max(min(_WINDOW, budget >> 21), 1) if window is None else window)
        for dataset in datasets_of(self):
            step.check_room(dataset.nbytes, budget)
        return self._with_step(step, epoch)

    def _with_step(self, step: Step, epoch: int | None = None) -> Mixture:
        mixed, first = self._traversal, None if epoch is None else first_epoch(epoch)
        options = mixed.options.with_step(step, first)
        position = MixedPosition.at_first(mixture_epoch(options.epoch), len(mixed.shared))
        how = mixed.choices, mixed.stop_at, mixed.shared, options, position, mixed.by
        return Mixture._made(*how)

    # Coming back

    def state(self, *, unread: int = 0) -> dict[str, Any]:
        """Return where the mixture stands. `restore` goes on with the very next record.

        Args:
            unread (int): See `RecordReader.state`. Default 0.

        Returns:
            dict: Small, and JSON can hold it. `reshard_state` takes it, too.

        Raises:
            ValueError: The last batch has given fewer records than ``unread``.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "a")
            >>> mixture = tfs.mix({"a": 1})
            >>> _ = next(iter(mixture))
            >>> other = tfs.mix({"a": 1})
            >>> other.restore(mixture.state())
            >>> len(list(other))
            2
        """
        return self._traversal.state(self._stands_at(unread))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to the place where `state` was taken.

        Args:
            state (dict): What `state` returned, or one of what `reshard_state` made of those.

        Raises:
            ValueError: The state is of another mixture, source or order, or the mixture is closed.
        """
        self._traversal.check_open()
        self._leave(self._traversal.find(state))

    def __reduce__(self) -> tuple[Any, ...]:
        traversal = self._traversal
        return Mixture._made, (
            traversal.choices,
            traversal.stop_at,
            traversal.shared,
            traversal.options,
            self._stands_at(),
            traversal.by,
        )


def datasets_of(mixture: Mixture) -> list[Dataset]:
    """The datasets that a mixture mixes."""
    return [one.dataset for one in mixture._traversal.shared]
