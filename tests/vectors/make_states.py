"""Writes states of readers into ``states/``: ``python -m tests.vectors.make_states [name …]``.

They are committed, so that later versions are held to what this one saved: where a reader stood in
a golden dataset, and which records came then. Add new ones for a new form, and leave the old ones.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import tfio_store as tfs
import tfio_store.dataset.pages as pages

HERE = Path(__file__).parent
STATES = HERE / "states"

Steps = list[list[Any]]

READERS: dict[str, tuple[str, Steps, int]] = {
    "begin": ("raw", [], 0),
    "inside-a-block": ("raw", [], 17),
    "between-shards": ("gzip", [], 30),
    "at-the-end": ("raw-starts", [], 60),
    "a-stream": ("streams", [], 7),
    "a-long-list": ("paged", [], 41),
    "shuffled": ("raw", [["shuffle", {"seed": 7}]], 23),
    "shuffled-window": ("raw-starts", [["shuffle", {"seed": 3, "window": 2}]], 9),
    "a-share": ("gzip", [["shard", {"index": 1, "count": 3}]], 5),
    "an-even-share": (
        "raw-starts", [["shard", {"index": 0, "count": 4, "even": "drop"}]], 6,
    ),
    "a-share-of-shuffled": (
        "raw", [["shuffle", {"seed": 5}], ["shard", {"index": 0, "count": 2}]], 11,
    ),
}  # fmt: skip
"""The dataset, what is asked of a reader of it, and how many records it gives before its state."""

MIXED = {"raw": 2.0, "gzip": 1.0}


def reader(dataset: str, steps: Steps) -> tfs.RecordReader:
    """A reader of a golden dataset, in the order that the steps say. That of ``paged`` reads its
    list as that of a long dataset."""
    most = -1 if dataset == "paged" else pages.WHOLE_BYTES
    with mock.patch.object(pages, "WHOLE_BYTES", most):
        made = tfs.RecordReader(str(HERE / "datasets" / dataset / "train"))
    for method, arguments in steps:
        made = getattr(made, method)(**arguments)
    return made


def mixture() -> Any:
    """Two golden datasets, read as one."""
    weights = {str(HERE / "datasets" / name / "train"): share for name, share in MIXED.items()}
    return tfs.mix(weights, seed=11)


def numbers(records: Any) -> list[int]:
    """Each record of the golden datasets begins with its number."""
    return [int(bytes(record).split()[0]) for record in records]


def document(name: str) -> dict[str, Any]:
    """What a state's file holds."""
    told: dict[str, Any]
    if name == "mixture":
        made, told, count = mixture(), {"mixed": True}, 25
    elif name == "resharded":
        return resharded()
    else:
        dataset, steps, count = READERS[name]
        made, told = reader(dataset, steps), {"dataset": dataset, "steps": steps}
    first = numbers(islice(made, count)) if count else []
    state = made.state()
    return {
        **told,
        "version": tfs.__version__,
        "first": first,
        "state": state,
        "then": numbers(made),
    }


def resharded() -> dict[str, Any]:
    """The states of three workers as those of two: of the first of these."""
    workers = [reader("gzip", [["shard", {"index": i, "count": 3}]]) for i in range(3)]
    for worker, count in zip(workers, (4, 9, 0), strict=True):
        list(islice(worker, count))
    states = tfs.reshard_state([worker.state() for worker in workers], 2)
    steps: Steps = [["shard", {"index": 0, "count": 2}]]
    made = reader("gzip", steps)
    made.restore(states[0])
    told = {"dataset": "gzip", "steps": steps, "version": tfs.__version__, "first": []}
    return {**told, "state": states[0], "then": numbers(made)}


NAMES = (*READERS, "mixture", "resharded")


def main() -> None:
    STATES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document(name).items())
        (STATES / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
