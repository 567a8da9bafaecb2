"""`elastic`: batches that any number of hosts goes on with."""

from __future__ import annotations

from typing import Any

import grain

from tfio_store.grain.rows import datasets, identity
from tfio_store.grain.states import Hosts, Identified, Shard

__all__ = ["elastic"]


def elastic(
    dataset: grain.MapDataset[Any],
    global_batch_size: int,
    *,
    shard: Shard = None,
    read_options: grain.ReadOptions | None = None,
    multiprocessing_options: grain.MultiprocessingOptions | None = None,
) -> grain.IterDataset[Any]:
    """Make each host's part of batches, so that any number of hosts goes on from a state.

    It is Grain's ``ElasticIterator``, whose states here name the source too. All hosts have the
    same state after the same number of steps. The hosts that go on may be more or fewer, and their
    global batches of another size. Rows that make no whole batch are left out at the end, and one
    host may then end a batch before another. After ``repeat()`` there is no end.

    Args:
        dataset (grain.MapDataset): What `source` gave, perhaps shuffled, repeated and mapped, and
            neither batched nor sharded.
        global_batch_size (int): The rows of a batch on all hosts together. A multiple of their
            number.
        shard (ShardOptions | tuple[int, int] | None): This host, as
            ``grain.sharding.ShardByJaxProcess()`` or as (index, count). Default None: the only one.
        read_options (grain.ReadOptions | None): Grain's. Default None: a few groups of rows are
            read ahead.
        multiprocessing_options (grain.MultiprocessingOptions | None): Grain's. Default None: no
            worker processes.

    Returns:
        grain.IterDataset: Of batches of this host. Its iterator has ``get_state`` and
        ``set_state``.

    Raises:
        ValueError: ``global_batch_size`` is no multiple of the number of hosts, or the dataset is
            filtered. With ``set_state``: the state is of another source.

    Example:
        >>> import tfio_store.grain
        >>> _ = tfs.write_table({"x": list(range(12))}, "train")
        >>> rows = tfio_store.grain.source("train").shuffle(seed=1)
        >>> two = [iter(tfio_store.grain.elastic(rows, 4, shard=(i, 2))) for i in range(2)]
        >>> given = [x for host in two for x in next(host)["x"].tolist()]
        >>> one = iter(tfio_store.grain.elastic(rows, 4))
        >>> one.set_state(two[0].get_state())
        >>> sorted(given + [x for batch in one for x in batch["x"].tolist()])
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """
    hosts = Hosts.of(shard)
    if global_batch_size < 1 or global_batch_size % hosts.count:
        raise ValueError(
            f"global_batch_size= takes a multiple of the {hosts.count} hosts, not "
            f"{global_batch_size}"
        )
    how = {
        "global_batch_size": global_batch_size,
        "shard_options": grain.sharding.ShardOptions(hosts.index, hosts.count),
        "read_options": read_options or grain.ReadOptions(num_threads=1, prefetch_buffer_size=2),
        "multiprocessing_options": multiprocessing_options,
    }
    return Identified(_Elastic(dataset, how), identity(dataset), datasets(dataset))


class _Elastic(grain.IterDataset[Any]):  # type: ignore[misc]
    """Makes an iterator of Grain's for each pass. Grain's own dataset has one for all of them."""

    def __init__(self, dataset: grain.MapDataset[Any], how: dict[str, Any]) -> None:
        super().__init__()
        self._dataset, self._how = dataset, how
        self._made()

    def _made(self) -> Any:
        return grain.experimental.ElasticIterator(self._dataset, **self._how)

    def __iter__(self) -> grain.DatasetIterator[Any]:
        made: grain.DatasetIterator[Any] = iter(self._made())
        return made
