"""`mix_datasets` gives what `mix` gives, and its iterators are saved and restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.read.choices import Choices

tf = pytest.importorskip("tensorflow")

from tests.tf.saved import restored  # noqa: E402
from tfio_store.tf.mixing import _page  # noqa: E402

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def weights(tmp_path: Path) -> dict[str, float]:
    found = {}
    for name, count, weight in (("a", 5_000, 3.0), ("b", 700, 1.0), ("c", 40, 0.01)):
        url = str(tmp_path / name)
        with tfs.ShardedWriter(url, num_shards=2, compression="GZIP") as writer:
            writer.write_batch([b"%s%d" % (name.encode(), i) for i in range(count)])
        found[url] = weight
    return found


def datasets(weights: dict[str, float]) -> list[tuple[Any, float]]:
    return [(tfs.TFRecordDataset(path), weight) for path, weight in weights.items()]


def listed(dataset: Any) -> list[Any]:
    return list(dataset.as_numpy_iterator())


@pytest.mark.parametrize("epoch", [0, 3])
@pytest.mark.parametrize("page", [0, 1, 1_000_000])
def test_the_choices_are_the_same(epoch: int, page: int) -> None:
    choices = Choices(5, (1.0, 2.5, 0.001, 7.0))
    found = _page(choices, epoch, tf.constant(page, tf.int64)).numpy().tolist()
    assert found == choices.between(epoch, page * 4096, (page + 1) * 4096).tolist()


@pytest.mark.parametrize("stop", ["all", "first"])
@pytest.mark.parametrize("seed", [0, 9])
def test_the_order_is_that_of_mix(weights: dict[str, float], stop: str, seed: int) -> None:
    some = dict(list(weights.items())[:2])
    mixed = tfs.mix_datasets(datasets(some), seed=seed, stop=stop)
    wanted = list(tfs.mix(some, seed=seed, stop=stop))
    assert listed(mixed) == wanted
    assert listed(mixed) == wanted  # again


def test_a_rare_source_decides_when_all_have_been_given(weights: dict[str, float]) -> None:
    rare = dict(list(weights.items())[1:])
    assert listed(tfs.mix_datasets(datasets(rare))) == list(tfs.mix(rare))


def test_an_iterator_is_saved_and_restored(weights: dict[str, float], tmp_path: Path) -> None:
    def made() -> Any:
        return tfs.mix_datasets(datasets(weights), stop="first", seed=1).batch(50)

    whole = [batch.numpy().tolist() for batch in made()]
    _, rest = restored(made(), 7, tmp_path, made())
    assert [batch.numpy().tolist() for batch in rest] == whole[7:]


def test_datasets_without_elements_are_passed_over(tmp_path: Path) -> None:
    empty, one = tf.data.Dataset.range(0), tf.data.Dataset.range(5)
    for stop in ("all", "first"):
        assert listed(tfs.mix_datasets([(empty, 1), (one, 1)], stop=stop))[:5] == [0, 1, 2, 3, 4]
        assert listed(tfs.mix_datasets([(empty, 1), (empty, 1)], stop=stop)) == []


def test_parsed_elements(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        tfs.write_table({"x": [value] * 300}, str(tmp_path / name))
    parsed = [(tfs.TFRecordDataset(tmp_path / n, schema={"x": "int64"}), 1.0) for n in "ab"]
    values = [int(row["x"]) for row in tfs.mix_datasets(parsed).take(256)]
    assert values.count(1) == 128


def test_arguments(weights: dict[str, float]) -> None:
    unknown = tf.data.Dataset.range(9).filter(lambda x: x > 3)
    with pytest.raises(ValueError, match="that of number 1 is not known"):
        tfs.mix_datasets([(tf.data.Dataset.range(3), 1), (unknown, 1)])
    assert listed(tfs.mix_datasets([(unknown, 1)], stop="first")) == [4, 5, 6, 7, 8]
    with pytest.raises(ValueError, match="stop="):
        tfs.mix_datasets([(unknown, 1)], stop="last")
    with pytest.raises(ValueError, match="datasets= holds nothing"):
        tfs.mix_datasets([])
    with pytest.raises(ValueError, match="positive"):
        tfs.mix_datasets([(unknown, 0)])
    for pairs in (["a"], [("a", 1)], [(unknown, "1")], unknown):
        with pytest.raises(TypeError, match="datasets= "):
            tfs.mix_datasets(pairs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epoch= takes"):
        tfs.mix_datasets([(unknown, 1)], stop="first", epoch=-1)
    endless = tf.data.Dataset.range(3).repeat()
    assert len(listed(tfs.mix_datasets([(endless, 1)]).take(100))) == 100
