"""A mixture is a source like any other: shared out over ranks and workers, resumed, resharded."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.training.loading import loader

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import TFRecordIterable  # noqa: E402

FIRST, SECOND = range(900), range(10_000, 10_300)


@pytest.fixture
def mixture(tmp_path: Path) -> tfs.results.Mixture:
    weights = {}
    for name, numbers, weight in (("a", FIRST, 3.0), ("b", SECOND, 1.0)):
        url = str(tmp_path / name)
        with tfs.ShardedWriter(
            url, num_shards=2, block_bytes=4096, schema={"x": "int64"}
        ) as writer:
            for x in numbers:
                writer.write({"x": x})
        weights[url] = weight
    return tfs.mix(weights, seed=1)


def batches_of(batches: object) -> list[list[int]]:
    return [batch["x"].tolist() for batch in batches]  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_have_the_same_number_of_batches(mixture: tfs.results.Mixture, workers: int) -> None:
    ranks = []
    for rank in range(2):
        dataset = TFRecordIterable(
            mixture, batch_size=32, shuffle=True, even="pad", rank=rank, world_size=2
        )
        assert dataset.schema == tfs.Schema.of({"x": "int64"})
        ranks.append(batches_of(loader(dataset, workers)))
    assert len(ranks[0]) == len(ranks[1])
    held = Counter(x for batches in ranks for batch in batches for x in batch)
    assert set(held) == {*FIRST, *SECOND}
    assert max(held.values()) <= 3
    share = sum(x >= 10_000 for batch in ranks[0][:16] for x in batch)  # 256 of each worker
    assert abs(share - 128) <= 4


def test_it_resumes_in_mid_epoch(mixture: tfs.results.Mixture) -> None:
    whole = batches_of(TFRecordIterable(mixture, batch_size=50, shuffle=True))
    for at in (0, 1, 5, len(whole) - 1):
        dataset = TFRecordIterable(mixture, batch_size=50, shuffle=True)
        assert batches_of(islice(iter(dataset), at)) == whole[:at]
        state = dataset.state_dict()
        other = TFRecordIterable(mixture, batch_size=50, shuffle=True)
        other.load_state_dict(state)
        assert batches_of(other) == whole[at:]


def test_options_of_the_reader_belong_to_the_mixture(mixture: tfs.results.Mixture) -> None:
    with pytest.raises(ValueError, match=r"verify= is not for a mixture: pass it to tfio_store"):
        TFRecordIterable(mixture, verify=False)


def test_sources_of_two_schemas(mixture: tfs.results.Mixture, tmp_path: Path) -> None:
    tfs.write_table({"y": [1.0]}, str(tmp_path / "c"))
    both = tfs.mix({str(tmp_path / "a"): 1, str(tmp_path / "c"): 1})
    with pytest.raises(ValueError, match=r"different schemas: pass schema="):
        TFRecordIterable(both)
    assert TFRecordIterable(both, schema="bytes").schema is None
