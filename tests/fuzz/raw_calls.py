"""Sound calls of every op of the TensorFlow bridge, which `raw_ops` changes: made as pipelines
make them, of small datasets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tests.tf.raw_call import SETTINGS, call
from tfio_store import ShardedWriter, encode_example
from tfio_store.dataset.source import open_dataset
from tfio_store.storage import Storage
from tfio_store.tf.dataset.blocks import BlockReader
from tfio_store.tf.dataset.columns import columns_of
from tfio_store.tf.dataset.options import Options, Settings
from tfio_store.tf.dataset.spans import Spans, batch_spans, block_spans, turn_spans

__all__ = ["Case", "Sound", "Tensor", "as_array", "integers", "run_eagerly", "tensor"]

Tensor: TypeAlias = "np.ndarray[Any, Any]"

COUNT, SIZE = 900, 20
RECORDS = [
    encode_example({"id": [i, -i], "text": [b"%d" % i] * (i % 3), "x": [0.5] * 3})
    for i in range(COUNT)
]
SPECS = [
    {"id": tf.io.FixedLenFeature([2], tf.int64), "text": tf.io.VarLenFeature(tf.string)},
    {"text": tf.io.RaggedFeature(tf.string), "x": tf.io.FixedLenFeature([3], tf.float32)},
    {
        "text": tf.io.FixedLenSequenceFeature([], tf.string, True, "none"),
        "id": tf.io.VarLenFeature(tf.int64),
    },
]
PLAIN = {"columns": b"", "Tout": [tf.string]}


@dataclass(frozen=True)
class Case:
    """A call: its inputs by name, and the op's attributes."""

    op: str
    inputs: dict[str, Tensor]
    attributes: dict[str, Any]
    records: list[bytes] | None = None
    """What the first output is, as long as nothing was changed."""

    @property
    def outputs(self) -> int:
        if "Tout" in self.attributes:
            return len(self.attributes["Tout"])
        return len(op_def_registry.get(self.op).output_arg)


def integers(*values: Any) -> Tensor:
    return np.array(values, np.int64)


def texts(*values: bytes) -> Tensor:
    return np.array(values, object)


class Sound:
    """Sound calls of every op, of datasets in a folder."""

    def __init__(self, folder: Path) -> None:
        self.requests = [
            request
            for compression in (None, "GZIP")
            for request in self._requests(folder / str(compression), compression)
        ]
        self.files = texts(*(str(path).encode() for path in sorted(folder.glob("None-*"))))
        self.packs = self._packs()

    def _requests(self, target: Path, compression: str | None) -> Iterator[dict[str, Tensor]]:
        with ShardedWriter(target, num_shards=3, compression=compression, block_bytes=4096) as out:
            out.write_batch(RECORDS)
        dataset = open_dataset(str(target), Storage())
        blocks = block_spans(dataset)
        found: list[Spans] = [blocks, batch_spans(dataset, SIZE)]
        found.append(turn_spans(blocks, range(3), 2, SIZE))
        for spans in found:
            reader = BlockReader(dataset, spans, Options(Settings(), batch_size=SIZE), marked=False)
            named = reader._blocks.inputs(tf.constant(0, tf.int64))
            yield {name: as_array(value) for name, value in named.items()}

    def _packs(self) -> list[Tensor]:
        given = {"files": self.files, "codecs": texts(*[b""] * len(self.files)), **self.position()}
        given |= {"least": integers(1000)[0], "shown": self.files}
        (pack, *_) = run_eagerly(Case("TfioStorePackStream", given, SETTINGS))
        return [np.zeros(0, np.uint8), as_array(pack)]

    def position(self) -> dict[str, Tensor]:
        return {"version": np.array(b"", object), "position": integers(0, 0, -1)}

    def draw(self, dice: random.Random) -> Case:
        kinds = [self._of_blocks, self._of_blocks, self._of_streams, self._small, self._of_orders]
        kind = dice.choice(kinds)
        return kind(dice)

    def _of_blocks(self, dice: random.Random) -> Case:
        inputs = dict(dice.choice(self.requests))
        settings = {**SETTINGS, "partial": dice.random() < 0.3, "skip_corrupt": dice.random() < 0.2}
        groups = len(inputs["groups"]) - (inputs["groups"].ndim == 1)
        group = dice.randrange(groups)
        op = dice.choice(
            ["ReadBlocks", "ReadExamples", "ReadExamples", "BeginBlocks", "AwaitBlocks"]
        )
        inputs["wanted"] = integers(group)[0]
        if op == "ReadExamples":
            settings |= {"batch_size": dice.choice([1, 3, SIZE]), **draw_columns(dice)}
            if dice.random() < 0.5:
                inputs["wanted"] = integers(group, 0, dice.randrange(3))
        elif op == "ReadBlocks":
            inputs["seed"] = integers(*[5] * dice.randrange(2))
        elif op == "AwaitBlocks":
            inputs["attempt"] = integers(0)[0]
        return Case(f"TfioStore{op}", inputs, settings)

    def _of_orders(self, dice: random.Random) -> Case:
        """Of blocks that are each a group."""
        blocks = dice.choice(self.requests[::3])
        op, mark = (
            dice.choice(["BeginEpoch", "PickRecords", "ReadPicked"]),
            int(blocks["mark"].sum()),
        )
        if op == "BeginEpoch":
            some = blocks["files"][: dice.randrange(len(blocks["files"]) + 1)]
            names = {"names": some[::-1], "all_names": blocks["files"]}
            return Case(f"TfioStore{op}", {**names, "seeds": integers(5, 7, 0),
                                           "key": integers(1, 2)}, {})  # fmt: skip
        row = [mark, dice.randrange(3), *(int(block) << 32 for block in range(3)), -1]
        if op == "ReadPicked":
            settings = {**SETTINGS, "batch_size": SIZE, **draw_columns(dice)}
            return Case(f"TfioStore{op}", {**blocks, "wanted": integers(*row)}, settings)
        files = len(blocks["files"])
        sizes = integers(
            SIZE, dice.choice([1, 3]), 50, dice.choice([1, 30, 5000]), 2, 3, files, 9000
        )
        inputs = {
            "batch": integers((dice.randrange(3) << 32) + mark)[0],
            "epoch": integers(dice.randrange(3), 5, 7, *range(files)),
            "table": blocks["table"],
            "spans": blocks["spans"],
            "sizes": sizes,
        }
        return Case(f"TfioStore{op}", inputs, {})

    def _of_streams(self, dice: random.Random) -> Case:
        codec, settings = dice.choice([b"", b"auto"]), SETTINGS
        inputs = {"files": self.files, "codecs": texts(*[codec] * len(self.files))}
        op = dice.choice(["ReadStream", "ReadStream", "PackStream", "PackStream", "PlainCodec"])
        if op == "PlainCodec":
            inputs, settings = {"files": self.files, "codec": np.array(codec, object)}, {}
        else:
            inputs |= self.position()
        if op == "PackStream":
            inputs |= {"least": integers(dice.choice([1, 1000]))[0], "shown": self.files}
        in_order = RECORDS[0::3] + RECORDS[1::3] + RECORDS[2::3]
        return Case(f"TfioStore{op}", inputs, settings, in_order if op == "ReadStream" else None)

    def _small(self, dice: random.Random) -> Case:
        left, pack = dice.choice(self.packs), dice.choice(self.packs)
        cut = integers(len(left) > 0, 0, 0, SIZE if len(pack) else 0)
        error = np.array(dice.choice([b"", b"15:cut", b"what"]), object)
        some = integers(dice.randrange(4), 3, 2, 0)
        inputs: dict[str, dict[str, Tensor]] = {
            "CutPack": {"left": left[:0], "pack": pack, "sizes": integers(SIZE, 1)},
            "ReadPack": {"left": left, "pack": pack, "cut": cut},
            "Raise": {"error": error, "later": np.array(b"later", object)},
            "WindowRows": {"window": integers(1 << 32)[0], "seed": integers(7)[0], "sizes": some},
        }
        op = dice.choice(list(inputs))
        attributes = draw_columns(dice) if op == "ReadPack" else {}
        return Case(f"TfioStore{op}", inputs[op], attributes)


def draw_columns(dice: random.Random) -> dict[str, Any]:
    if dice.random() < 0.3:
        return PLAIN
    columns = columns_of(dice.choice(SPECS))
    assert columns is not None
    return columns.attributes


def as_array(value: Any) -> Tensor:
    found: Tensor = value.numpy()
    return np.array(found, object) if value.dtype == tf.string else found


def tensor(value: Tensor) -> tf.Tensor:
    if value.dtype != object:
        return tf.constant(value)
    if not value.size:
        return tf.zeros(value.shape, tf.string)
    return tf.constant(value.tolist(), tf.string, value.shape)


def run_eagerly(case: Case) -> list[Any]:
    inputs = [tensor(value) for value in case.inputs.values()]
    return call(case.op, case.outputs, inputs, case.attributes)
