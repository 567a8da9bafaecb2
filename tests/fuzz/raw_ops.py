"""Hostile tensors and attributes for every op of the TensorFlow bridge, as a graph that comes from
anywhere may hold them: called eagerly, in a function and through a SavedModel.

python -m tests.fuzz.raw_ops [--seconds 60] [--first N]

A case is one seed. It takes a sound call of an op, which is made as pipelines make it, and changes
some of its inputs or attributes: shapes with zeros or too many dimensions, other element types,
numbers at the ends of their range, claims whose sum wraps, outputs of other types. A sound call
gives the records that were written. Any other gives tensors, or one of TensorFlow's errors with a
text. Run it with the extensions under AddressSanitizer (``scripts/asan.sh``): it sees what is read
or written outside of a tensor. A call that does not end stops the run.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library

from tests.fuzz.raw_calls import Case, Sound, Tensor, as_array, integers, run_eagerly, tensor

CALL_SECONDS = 60
"""No call of a case takes so long: who waits for one waits for ever."""

TYPES = [tf.string, tf.int64, tf.int32, tf.float32, tf.uint8, tf.bool, tf.float64, tf.variant]
EDGES = [0, 1, -1, 2, 7, 16, 255, 1 << 32, 1 << 40, 2**59, 2**59 - 1, 2**62, 2**63 - 1, -(2**63)]
"""Nothing in between, which memory is there for."""
NAMES = [b"", b"\0", b"x" * 5000, b"\xff", b"memory://none/x", b"file:///", b"GZIP", b"auto"]
NAMES += [b"ZSTD@index", b"99:x"]


# ---- changes ----


def change(case: Case, dice: random.Random) -> Case:
    """The case with some of its inputs, or of its attributes, made hostile."""
    inputs, attributes = dict(case.inputs), dict(case.attributes)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        if "groups" in inputs and dice.random() < 0.2:
            dice.choice([claim_too_much, idle_for_ever])(inputs, dice)
        elif attributes and dice.random() < 0.25:
            change_attribute(attributes, dice)
        else:
            name = dice.choice(list(inputs))
            inputs[name] = dice.choice(CHANGES)(inputs[name], dice)
    return replace(case, inputs=inputs, attributes=attributes, records=None)


def other_shape(value: Tensor, dice: random.Random) -> Tensor:
    size = value.size
    shapes = [
        (), (0,), (size,), (size, 1), (1, size), (1, 1, size), (size, 0), (0, size), (0, 0),
        (2**36, 0), (0, 2**36), (1, 0), (dice.randrange(9), dice.randrange(9)), (2, 0, 3),
        (1, 2, 3, 4, 5), (dice.randrange(300),),
    ]  # fmt: skip
    shape = dice.choice(shapes)
    if 0 in shape or not size:
        return (
            np.zeros(shape, value.dtype) if value.dtype != object else np.full(shape, b"", object)
        )
    return np.resize(value, shape)


def other_type(value: Tensor, dice: random.Random) -> Tensor:
    if value.dtype == object or dice.random() < 0.5:
        return np.zeros(value.shape, dice.choice([np.int64, np.int32, np.uint8, np.float32, bool]))
    return np.full(value.shape, b"7", object)


def other_values(value: Tensor, dice: random.Random) -> Tensor:
    changed = value.copy().reshape(-1)
    for _ in range(dice.choice([1, 1, 2, 8]) if changed.size else 0):
        at = dice.randrange(changed.size)
        if value.dtype == object:
            changed[at] = dice.choice(NAMES)
        elif value.dtype == np.uint8:
            changed[at] ^= 1 << dice.randrange(8)
        else:
            near = (int(changed[at]) + dice.choice([-1, 1, 3])) % 2**63
            changed[at] = dice.choice([*EDGES, near]) if changed.dtype == np.int64 else 3
    return changed.reshape(value.shape)


def other_rows(value: Tensor, dice: random.Random) -> Tensor:
    """Fewer rows, or some of them again, in another order."""
    if value.ndim == 0 or not len(value):
        return value
    rows = [dice.randrange(len(value)) for _ in range(dice.randrange(2 * len(value) + 1) % 300)]
    return value[rows] if dice.random() < 0.5 else value[: dice.randrange(len(value))]


CHANGES: list[Callable[[Tensor, random.Random], Tensor]] = [
    other_shape, other_shape, other_values, other_values, other_rows, other_type,
]  # fmt: skip


def claim_too_much(inputs: dict[str, Tensor], dice: random.Random) -> None:
    """Spans that announce so many records that the sum of all wraps, and comes to a few."""
    spans, table = inputs["spans"], inputs["table"]
    if spans.ndim != 2 or table.ndim != 2 or spans.shape[1] != 3 or table.shape[1] != 8:
        return
    most, each = 2**63 - 1, 2**59 - 1
    block = len(table)
    inputs["table"] = np.concatenate([table, [[0, 0, most, 0, most, each, -1, -1]]])
    lies = integers(*[[block, 0, each]] * 31, [block, 0, each - dice.randrange(400)])
    at = dice.randrange(len(spans) + 1)
    inputs["spans"] = np.concatenate([spans[:at], lies, spans[at:]])
    last = len(inputs["spans"])
    inputs["groups"] = dice.choice([integers(0, last), integers([0, at, last])])
    inputs["wanted"] = dice.choice([integers(0)[0], integers(*[0] * 33), integers(0, 0, 1)])


def idle_for_ever(inputs: dict[str, Tensor], dice: random.Random) -> None:
    """Lanes with turns that give nothing."""
    lanes = dice.choice([1, 2, 5])
    turns = dice.choice([1, 3, 2**20, 2**36, 2**62])
    count = dice.choice([lanes, 100, 1000])
    inputs["spans"] = integers(*[[0, turns, 0]] * count)
    inputs["groups"] = integers([*sorted(dice.randrange(count) for _ in range(lanes)), count])
    inputs["wanted"] = integers(0)[0]


def change_attribute(attributes: dict[str, Any], dice: random.Random) -> None:
    name = dice.choice(list(attributes))
    value = attributes[name]
    if name == "Tout":
        types = list(value)
        types[dice.randrange(len(types))] = dice.choice(TYPES)
        more = [dice.choice(TYPES)] * dice.randrange(2)
        attributes[name] = dice.choice([types, types[:-1] or types, types + more])
    elif name == "columns" and value:
        at = dice.randrange(len(value))
        changed = dice.choice([0, 1, 255, value[at] ^ 1])
        attributes[name] = value[:at] + bytes([changed]) + value[at + 1 :]
    elif isinstance(value, bool):
        attributes[name] = not value
    elif isinstance(value, int):
        attributes[name] = dice.choice(EDGES)
    elif name == "options":
        attributes[name] = dice.choice(["", "{}", "[]", "{", '{"options": 3}', '{"backend": "x"}'])


# ---- calls ----


def function_of(case: Case) -> Any:
    """The op as a function of its inputs, of which no shape is known."""
    named, attributes = list(case.inputs), case.attributes
    types = [tensor(value).dtype for value in case.inputs.values()]

    @tf.function(input_signature=[tf.TensorSpec(None, dtype) for dtype in types])
    def run(*inputs: tf.Tensor) -> Any:
        given = dict(zip(named, inputs, strict=True))
        return op_def_library.apply_op(case.op, **given, **attributes)

    return run


def run_traced(case: Case) -> list[Any]:
    return list(tf.nest.flatten(function_of(case)(*map(tensor, case.inputs.values()))))


class Saved:
    """One SavedModel of many calls, sound ones and others."""

    def __init__(self, folder: Path, sound: Sound, dice: random.Random) -> None:
        self.cases: list[Case] = []
        module = tf.Module()
        while len(self.cases) < 24:
            case = sound.draw(dice)
            if case.attributes and dice.random() < 0.5:
                attributes = dict(case.attributes)
                change_attribute(attributes, dice)
                case = replace(case, attributes=attributes, records=None)
            try:
                made = function_of(case)
                made.get_concrete_function()
            except REFUSED:
                continue
            setattr(module, f"call{len(self.cases)}", made)
            self.cases.append(case)
        tf.saved_model.save(module, str(folder))
        self._loaded = tf.saved_model.load(str(folder))

    def run(self, case: Case, *, number: int) -> list[Any]:
        found = getattr(self._loaded, f"call{number}")(*map(tensor, case.inputs.values()))
        return list(tf.nest.flatten(found))


SEEDS = 24
"""Bits of a seed that tell a case from others. Those before them make the SavedModel."""

REFUSED = (TypeError, ValueError, NotImplementedError)
"""What TensorFlow's Python says of calls that it does not let through, and UnicodeDecodeError of
errors whose text is none."""

UNEXPECTED = (tf.errors.InternalError, tf.errors.UnknownError, tf.errors.AbortedError)


def attempt(case: Case, run: Callable[[Case], list[Any]]) -> str:
    """How a call ended. Raises what must not happen."""
    try:
        found = [as_array(value) for value in run(case) if value.dtype != tf.variant]
    except tf.errors.OpError as error:
        if (isinstance(error, UNEXPECTED) and case.op != "TfioStoreRaise") or not error.message:
            raise
        return type(error).__name__
    except REFUSED as error:
        return type(error).__name__
    if case.records is not None:
        assert found[0].tolist() == case.records
    return "gave tensors"


def fuzz(seconds: float, seed: int) -> Counter[str]:
    """Cases until the time is up: what they came to."""
    told: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        sound = Sound(Path(name))
        saved = Saved(Path(name, "model"), sound, random.Random(seed >> SEEDS))
        while time.monotonic() < ends:
            faulthandler.dump_traceback_later(CALL_SECONDS, exit=True)
            told[one(seed, sound, saved)] += 1
            faulthandler.cancel_dump_traceback_later()
            seed += 1
    return told


def one(seed: int, sound: Sound, saved: Saved) -> str:
    dice = random.Random(seed)
    number = dice.randrange(len(saved.cases))
    runs: list[Callable[[Case], list[Any]]] = [
        run_eagerly,
        run_traced,
        partial(saved.run, number=number),
    ]
    (run,) = dice.choices(runs, [3, 1, 2])
    sound_case = saved.cases[number] if run is runs[2] else sound.draw(dice)
    case = change(sound_case, dice) if dice.random() < 0.9 else sound_case
    if run is runs[2]:
        case = replace(case, attributes=sound_case.attributes)
    try:
        return attempt(case, run)
    except BaseException:
        shapes = {name: value.shape for name, value in case.inputs.items()}
        print(f"--first {seed}: {run} {case.op} {shapes} {case.attributes}", flush=True)
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=time.time_ns() % 2**SEEDS << SEEDS)
    args = parser.parse_args()
    print(f"--first {args.first}", flush=True)
    told = fuzz(args.seconds, args.first)
    print(dict(told))
    print(f"number_of_executed_units: {told.total()}")


if __name__ == "__main__":
    main()
