"""Which doors have a length, and that it is how much comes out, in each epoch, on each rank."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import tfio_store as tfs
from tests.episodes.robots import written as robots
from tests.support.framed import framed
from tests.support.long import first

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.utils.data import DataLoader, DistributedSampler  # noqa: E402

from tfio_store.torch import EpisodeWindows, TFRecordIterable, TFRecordMap  # noqa: E402

COUNT = 103
Door: TypeAlias = Callable[[Path, int, int, int], Any]
"""What makes a loader for a rank of so many, with so many workers."""
PLACES = ((1, 0), (3, 0), (2, 2), (1, 1), (1, 2), (2, 0), (2, 1), (3, 1), (3, 2))
"""Ranks, and the workers of each."""


def written(folder: Path) -> None:
    for name, count in (("train", COUNT), ("other", 31), ("none", 0)):
        schema = {"x": "int64", "tokens": tfs.Feature("int64", (None,)), "pad": "bytes"}
        with tfs.ShardedWriter(
            folder / name, num_shards=3, block_bytes=4096, schema=schema
        ) as writer:
            for x in range(count):
                writer.write({"x": x, "tokens": [1] * (x % 9), "pad": bytes(500)})
    records = [tfs.encode_example({"x": x}) for x in range(50)]
    for number in range(2):
        whole = framed(records)
        (folder / f"foreign-{number}.tfrecord").write_bytes(whole)
        (folder / f"stream-{number}.tfrecord.gz").write_bytes(gzip.compress(whole))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lengths")
    written(made)
    return made


def iterable(source: str = "train", size: int | None = None, last: bool = True, **how: Any) -> Door:
    """A `TFRecordIterable`. ``size``, ``last``: of batches that the loader makes."""

    def loader(folder: Path, rank: int, ranks: int, workers: int) -> Any:
        options = {"batch_size": None if size else 7, **how}
        dataset = TFRecordIterable(folder / source, rank=rank, world_size=ranks, **options)
        return DataLoader(dataset, size, num_workers=workers, drop_last=bool(size) and not last)

    return loader


def of(make: Callable[[Path], Any], **how: Any) -> Door:
    """One of a source that is no name."""

    def loader(folder: Path, rank: int, ranks: int, workers: int) -> Any:
        dataset = TFRecordIterable(make(folder), batch_size=7, rank=rank, world_size=ranks, **how)
        return DataLoader(dataset, None, num_workers=workers)

    return loader


def mixture(folder: Path, **how: Any) -> Any:
    return tfs.mix({str(folder / "train"): 3.0, str(folder / "other"): 1.0}, **how)


def by_map(folder: Path, rank: int, ranks: int, workers: int) -> Any:
    dataset = TFRecordMap(folder / "train")
    sampler = DistributedSampler(dataset, ranks, rank)
    return DataLoader(dataset, 7, sampler=sampler, num_workers=workers)


KNOWN: dict[str, Door] = {
    "in order": iterable(),
    "the last left out": iterable(drop_last=True),
    "single rows": iterable(batch_size=None),
    "shuffled": iterable(shuffle=True),
    "shuffled, the last left out": iterable(shuffle=True, drop_last=True),
    "padded": iterable(shuffle=True, even="pad"),
    "dropped": iterable(even="drop"),
    "split": iterable(shuffle=True, even="split"),
    "batches of the loader": iterable(size=5, columns=["x"]),
    "shuffled batches of the loader": iterable(size=5, last=False, shuffle=True, columns=["x"]),
    "nothing": iterable("none"),
    "without an index": iterable("foreign-*.tfrecord", shuffle=True, schema={"x": "int64"}),
    "bytes": iterable(schema="bytes"),
    "a slice": of(lambda folder: tfs.slice(folder / "train", "10:71")),
    "a shuffled slice": of(lambda folder: tfs.slice(folder / "train", "10:71"), shuffle=True),
    "a mixture of one": of(lambda folder: tfs.mix({str(folder / "train"): 1.0}), shuffle=True),
    "TFRecordMap": by_map,
}
CHOICES = "a mixture is as long as its choices make it"
UNKNOWN: dict[str, tuple[Door, str]] = {
    "a stream": (iterable("stream-*.tfrecord.gz", schema={"x": "int64"}), "is a stream"),
    "skips": (iterable(on_corrupt="skip"), "may skip"),
    "a mixture": (of(mixture), CHOICES),
    "to the first end": (
        of(lambda folder: mixture(folder, stop="first")),
        "a mixture is as long as",
    ),
    "by tokens": (of(lambda folder: mixture(folder, by="tokens")), CHOICES),
    "packed": (iterable(pack="tokens", length=16), "the lengths of documents"),
}


def rows_of(batch: Any) -> int:
    return len(batch["x"]) if isinstance(batch, dict) else len(batch)


@pytest.mark.parametrize(("ranks", "workers"), first(3, PLACES))
@pytest.mark.parametrize("door", KNOWN)
def test_a_length_is_how_much_comes(folder: Path, door: str, ranks: int, workers: int) -> None:
    for rank in range(ranks):
        loader = KNOWN[door](folder, rank, ranks, workers)
        length = len(loader)
        assert [sum(1 for _ in loader) for _ in range(2)] == [length] * 2
        assert len(loader) == length


@pytest.mark.parametrize("door", UNKNOWN)
def test_where_nobody_knows_a_length_there_is_none(folder: Path, door: str) -> None:
    make, reason = UNKNOWN[door]
    loader = make(folder, 0, 1, 0)
    assert not hasattr(loader.dataset, "__len__")
    with warnings.catch_warnings(), pytest.raises(TypeError, match=reason):
        warnings.simplefilter("ignore")
        len(loader)
    assert sum(1 for _ in loader) > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_the_only_share_of_documents_laid_end_to_end_has_a_length(
    folder: Path, workers: int
) -> None:
    packing = tfs.Packing("tokens", 16, how="concat")
    for how in ({}, {"drop_last": True}, {"batch_size": None}, {"shuffle": True}):
        loader = iterable(pack=packing, **how)(folder, 0, 1, workers)
        assert [sum(1 for _ in loader) for _ in range(2)] == [len(loader)] * 2
    for ranks, how_many in ((2, 0), (1, 2)):
        with pytest.raises(TypeError, match="the lengths of documents"):
            len(iterable(pack=packing)(folder, 0, ranks, how_many))


@pytest.mark.parametrize(("ranks", "workers"), first(3, PLACES))
def test_windows_of_episodes(tmp_path: Path, ranks: int, workers: int) -> None:
    episodes = tfs.Episodes(robots(tmp_path / "arm" / "1.0.0", (9, 1, 14, 5, 8), num_shards=2))
    for rank in range(ranks):
        dataset = EpisodeWindows(
            episodes.windows(length=3), batch_size=4, rank=rank, world_size=ranks
        )
        loader = DataLoader(dataset, None, num_workers=workers)
        assert [sum(1 for _ in loader) for _ in range(2)] == [len(loader)] * 2


GRAIN: dict[str, Callable[[Any], Any]] = {
    "rows": lambda rows: rows,
    "batches": lambda rows: rows.batch(7),
    "whole batches": lambda rows: rows.batch(7, drop_remainder=True),
    "shuffled": lambda rows: rows.shuffle(seed=1).batch(7),
    "mapped": lambda rows: rows.map(lambda row: row["x"]).batch(7),
    "every second": lambda rows: rows[1::2].batch(7),
    "two epochs": lambda rows: rows.repeat(2).batch(7),
}


@pytest.mark.parametrize("hosts", range(1, 4))
@pytest.mark.parametrize("how", GRAIN)
def test_grain_asks_sources_for_a_length(folder: Path, how: str, hosts: int) -> None:
    pytest.importorskip("grain", reason="Grain is not installed")
    import tfio_store.grain

    for host in range(hosts):
        rows = tfio_store.grain.source(folder / "train", columns=["x"])
        made = GRAIN[how](rows)[host::hosts]
        assert len(made) == sum(1 for _ in made.to_iter_dataset())
    stream: Any = tfio_store.grain.stream(folder / "train")
    assert not hasattr(stream, "__len__")  # Grain's streams have none
