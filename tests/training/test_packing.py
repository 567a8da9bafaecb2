"""Rows of packed documents from PyTorch's loaders and Grain's: as plain Python makes them, and gone
on from any step, on any number of ranks and workers."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.long import first
from tests.support.packed import Row, documents_of, packed, rows_in, tokens_in, written

DOCUMENTS = documents_of(1, 400, 30)
ALL = [token for one in DOCUMENTS for token in one]
HOW = ("first_fit", "concat")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(str(tmp_path_factory.mktemp("packed") / "train"), DOCUMENTS, num_shards=4)


def a_packing(how: Any) -> tfs.Packing:
    return tfs.Packing("tokens", 32, how=how, window=4 if how == "first_fit" else None)


def kept(state: Any) -> Any:
    return json.loads(json.dumps(state))


def rows_of(batches: Any) -> list[Row]:
    return [row for batch in batches for row in rows_in(batch)]


class TestTorch:
    """`TFRecordIterable`."""

    @pytest.fixture(autouse=True)
    def torchdata(self) -> Any:
        return pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is missing")

    @staticmethod
    def dataset(url: str, how: Any, **options: Any) -> Any:
        from tfio_store.torch import TFRecordIterable

        return TFRecordIterable(url, pack=a_packing(how), **{"batch_size": 4, **options})

    def loader(self, url: str, workers: int, how: str, part: Any = None, **options: Any) -> Any:
        from torchdata.stateful_dataloader import StatefulDataLoader

        dataset = self.dataset(url, how, **options)
        if part is not None:
            dataset.load_state_dict(part)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    @pytest.mark.parametrize("how", HOW)
    def test_rows_are_those_of_plain_python(self, url: str, how: str) -> None:
        wanted = packed(tfs.read_table(url)["tokens"].tolist(), a_packing(how))
        assert rows_of(self.dataset(url, how)) == wanted
        assert rows_of(self.dataset(url, how, drop_last=True)) == wanted[: len(wanted) // 4 * 4]
        single = self.dataset(url, how, batch_size=None)
        assert [tuple(part.tolist() for part in row.values()) for row in single] == wanted

    def test_the_short_form(self, url: str) -> None:
        import torch

        from tfio_store.torch import TFRecordIterable

        dataset = TFRecordIterable(url, pack="tokens", length=2048, batch_size=2)
        assert list(dataset.schema or ()) == ["tokens"]
        batch = next(iter(dataset))
        assert {name: (part.shape, part.dtype) for name, part in batch.items()} == {
            "tokens": ((2, 2048), torch.int64),
            "segment_ids": ((2, 2048), torch.int32),
            "positions": ((2, 2048), torch.int32),
        }
        for wrong in (
            {"pack": "tokens"},
            {"length": 4},
            {"pack": a_packing("concat"), "length": 4},
        ):
            with pytest.raises(ValueError, match="length="):
                TFRecordIterable(url, **wrong)
        with pytest.raises(TypeError, match=r"len\(\) is not known"):
            len(TFRecordIterable(url, pack="tokens", length=8, num_workers=2))

    @pytest.mark.parametrize("how", HOW)
    @pytest.mark.parametrize("workers", [0, 2])
    def test_each_step_can_be_gone_on_from(self, url: str, how: str, workers: int) -> None:
        options = {"shuffle": True, "seed": 3}
        loader = self.loader(url, workers, how, **options)
        whole, states = [], []
        for batch in loader:
            whole.append(rows_in(batch))
            states.append(kept(loader.state_dict()))
        ended = kept(loader.state_dict())
        second = rows_of(loader)
        first = list(chain.from_iterable(whole))
        assert sorted(tokens_in(first)) == sorted(tokens_in(second)) == ALL
        assert first != second
        for step in sorted({1, 2, 3, 7, len(whole) // 2, len(whole) - 1}):
            again = self.loader(url, workers, how, **options)
            again.load_state_dict(states[step - 1])
            assert [rows_in(batch) for batch in again] == whole[step:], step
        again = self.loader(url, workers, how, **options)
        again.load_state_dict(ended)
        assert rows_of(again) == second

    @pytest.mark.parametrize("how", HOW)
    def test_single_rows_can_be_gone_on_from(self, url: str, how: str) -> None:
        dataset = self.dataset(url, how, batch_size=None)
        whole, states = [], []
        for row in dataset:
            whole.append(row["tokens"].tolist())
            states.append(kept(dataset.state_dict()))
        for step, state in list(enumerate(states, 1))[::7]:
            again = self.dataset(url, how, batch_size=None)
            again.load_state_dict(state)
            assert [row["tokens"].tolist() for row in again] == whole[step:]

    @pytest.mark.parametrize("how", HOW)
    @pytest.mark.parametrize(("ranks", "workers"), [(1, 0), (2, 0), (3, 2)])
    def test_other_ranks_go_on(self, url: str, how: str, ranks: int, workers: int) -> None:
        from tfio_store.torch import reshard

        options = {"shuffle": True, "seed": 3, "batch_size": 1}
        before, states = [], []
        for rank in range(ranks):
            loader = self.loader(url, workers, how, rank=rank, world_size=ranks, **options)
            batches = iter(loader)
            before += rows_of(next(batches) for _ in range(5))
            states.append(kept(loader.state_dict()))
        for new_ranks, new_workers in ((1, 0), (4, 0), (2, 3)):
            parts = reshard(states, world_size=new_ranks, num_workers=new_workers)
            after: list[Row] = []
            next_epoch: list[Row] = []
            for rank, part in enumerate(parts):
                how_many = {"rank": rank, "world_size": new_ranks}
                loader = self.loader(url, new_workers, how, kept(part), **how_many, **options)
                after += rows_of(loader)
                next_epoch += rows_of(loader)
            assert sorted(tokens_in(before + after)) == ALL, (new_ranks, new_workers)
            assert sorted(tokens_in(next_epoch)) == ALL

    @pytest.mark.long
    def test_workers_that_are_spawned_share_the_documents(self, url: str) -> None:
        from tests.training.loading import loader

        batches = loader(self.dataset(url, "first_fit", shuffle=True), 2, "spawn")
        assert sorted(tokens_in(rows_of(batches))) == ALL

    def test_metrics_of_workers_are_added_up(self, url: str) -> None:
        from torch.utils.data import DataLoader

        dataset = self.dataset(url, "first_fit", num_workers=2)
        count = len(rows_of(DataLoader(dataset, batch_size=None, num_workers=2)))
        metrics = dataset.metrics()
        assert (metrics["rows"], metrics["tokens"]) == (count, len(ALL))
        assert metrics["empty"] == sum(not one for one in DOCUMENTS)

    def test_a_transform_gets_packed_batches(self, url: str) -> None:
        dataset = self.dataset(url, "concat", transform=lambda batch: batch["tokens"].shape)
        assert next(iter(dataset)) == (4, 32)


class TestGrain:
    """The ``stream`` of Grain."""

    @pytest.fixture(autouse=True)
    def grain(self) -> Any:
        return pytest.importorskip("grain", reason="Grain is not installed")

    @staticmethod
    def stream(url: str, how: Any, **options: Any) -> Any:
        import tfio_store.grain

        return tfio_store.grain.stream(url, pack=a_packing(how), **options)

    @pytest.mark.parametrize("how", HOW)
    def test_rows_are_those_of_plain_python(self, url: str, how: str) -> None:
        wanted = packed(tfs.read_table(url)["tokens"].tolist(), a_packing(how))
        single = [tuple(part.tolist() for part in row.values()) for row in self.stream(url, how)]
        assert single == wanted
        assert rows_of(self.stream(url, how, num_epochs=2).batch(4)) == wanted * 2
        assert all(
            isinstance(part, np.ndarray) for part in next(iter(self.stream(url, how))).values()
        )

    @pytest.mark.parametrize("how", HOW)
    @pytest.mark.parametrize("batch", [None, 3])
    def test_each_step_can_be_gone_on_from(self, url: str, how: str, batch: int | None) -> None:
        def stream() -> Any:
            made = self.stream(url, how, shuffle=True, seed=2, num_epochs=2)
            return made if batch is None else made.batch(batch)

        def tokens(rows: Any) -> Any:
            return [row["tokens"].tolist() for row in rows]

        iterator = iter(stream())
        whole, states = [], []
        for row in iterator:
            whole.append(row["tokens"].tolist())
            states.append(kept(iterator.get_state()))
        for step, state in list(enumerate(states, 1))[::5]:
            again = iter(stream())
            again.set_state(state)
            assert tokens(again) == whole[step:], step

    @pytest.mark.parametrize("how", HOW)
    @pytest.mark.parametrize("hosts", [1, 2, 3])
    def test_other_hosts_go_on(self, url: str, how: str, hosts: int) -> None:
        options = {"shuffle": True, "seed": 2}
        for steps in (1, 5, 17, 40):
            before, states = [], []
            for host in range(hosts):
                iterator = iter(self.stream(url, how, shard=(host, hosts), **options).batch(1))
                before += rows_of(islice(iterator, steps))
                states.append(kept(iterator.get_state()))
            for count in (1, 2, 4):
                after: list[Row] = []
                for host in range(count):
                    how_many = {"shard": (host, count), "resume": states}
                    after += rows_of(self.stream(url, how, **how_many, **options).batch(2))
                assert sorted(tokens_in(before + after)) == ALL, (steps, count)

    @pytest.mark.parametrize("how", first(1, HOW))
    def test_worker_processes_share_the_documents(self, url: str, how: str) -> None:
        from tests.training.grain_loading import workers_of

        iterator = iter(workers_of(self.stream(url, how, shuffle=True, seed=2).batch(2), 2))
        before = rows_of(islice(iterator, 5))
        state = iterator.get_state()
        after = rows_of(iterator)
        assert sorted(tokens_in(before + after)) == ALL
        again = iter(workers_of(self.stream(url, how, shuffle=True, seed=2).batch(2), 2))
        again.set_state(state)
        assert rows_of(again) == after
