"""Names of sources in the doors of PyTorch, Grain and Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.named import MEANINGS, MISTAKES, put_in

SCHEMA: dict[str, Any] = {"name": "str"}
MEANT = {
    name: files
    for name, files in MEANINGS.items()
    if "@" in name or "," in name or "{{" in name or "[" in name or name in ("{}dv", "{}spark")
}
MISTAKEN = ("{}dv/exmaples.tfrecord@3.gz", "{}holes/x@4", "{}basenji", "{}basenji/trian-*.tfr")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return put_in(tmp_path_factory.mktemp("named"))


def by_torch(name: str) -> list[str]:
    pytest.importorskip("torch")
    from tfio_store.torch import TFRecordIterable

    dataset = TFRecordIterable(name, schema=SCHEMA, batch_size=4)
    return [text for batch in dataset for text in batch["name"]]


def by_torch_map(name: str) -> list[str]:
    pytest.importorskip("torch")
    from tfio_store.torch import TFRecordMap

    return list(TFRecordMap(name, schema=SCHEMA)[:]["name"])


def by_grain(name: str) -> list[str]:
    pytest.importorskip("grain")
    from tfio_store.grain import source

    found = source(name, schema=SCHEMA)
    return [found[i]["name"] for i in range(len(found))]


def by_hugging_face(name: str) -> list[str]:
    pytest.importorskip("datasets")
    from tfio_store.hf import iterable_dataset

    return [row["name"] for row in iterable_dataset(name, schema=SCHEMA)]


DOORS: list[Callable[[str], list[str]]] = [
    by_torch, by_torch_map, by_grain, by_hugging_face,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_meanings(folder: str, door: Callable[[str], list[str]]) -> None:
    for name, files in MEANT.items():
        found = [str(text) for text in door(name.format(*[f"{folder}/"] * 9))]
        assert found == files, name


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", MISTAKEN)
def test_mistakes(folder: str, name: str, door: Callable[[str], list[str]]) -> None:
    kind, text = MISTAKES[name]
    with pytest.raises(kind, match=text):
        door(name.format(f"{folder}/"))
