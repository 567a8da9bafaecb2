"""What a graph that comes from anywhere may hand to the ops: tensors of any shape, claims of any
size, outputs of any type. `make long ONLY=asan` runs these under AddressSanitizer, which sees
what is read or written outside of a tensor; `tests/fuzz/raw_ops.py` draws more of them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.fuzz.raw_calls import Sound  # noqa: E402
from tests.tf.raw_call import SETTINGS, call, request  # noqa: E402
from tfio_store.tf.dataset import ops  # noqa: E402
from tfio_store.tf.dataset.columns import columns_of  # noqa: E402

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(ops.bridge() != "native", reason="needs the native ops"),
]

MOST = 2**63 - 1

READS = {
    "TfioStoreReadBlocks": 2,
    "TfioStoreReadExamples": 1,
    "TfioStoreBeginBlocks": 1,
    "TfioStoreAwaitBlocks": 1,
}


def refused(op: str, inputs: dict[str, Any], **attributes: Any) -> str:
    """What a call says that must fail."""
    settings = {} if op in ("TfioStoreWindowRows", "TfioStoreReadPack") else SETTINGS
    with pytest.raises(tf.errors.InvalidArgumentError) as told:
        call(op, READS.get(op, 1), inputs.values(), {**settings, **attributes})
    return str(told.value)


def read_request(op: str, *, skip_corrupt: bool = False, **given: Any) -> str:
    """What a call of an op that reads blocks says that must fail."""
    inputs, attributes = request(**given), dict[str, Any](skip_corrupt=skip_corrupt)
    if op == "TfioStoreReadBlocks":
        inputs["seed"] = tf.zeros([0], tf.int64)
    if op == "TfioStoreAwaitBlocks":
        inputs["attempt"] = tf.constant(0, tf.int64)
    if op == "TfioStoreReadExamples":
        attributes |= {"batch_size": 4, "columns": b"", "Tout": [tf.string]}
    return refused(op, inputs, **attributes)


def blocks_of(path: Path, records: list[bytes]) -> dict[str, Any]:
    """The request for one block, a raw file of its own."""
    with tfs.TFRecordWriter(str(path)) as writer:
        writer.write_batch(records)
    size = path.stat().st_size
    return {
        "files": [str(path)],
        "codecs": [""],
        "versions": [""],
        "table": [[0, 0, size, 0, size, len(records), -1, -1]],
        "spans": [[0, 0, len(records)]],
        "groups": [0, 1],
        "wanted": 0,
    }


@pytest.mark.parametrize("op", READS)
@pytest.mark.parametrize("shape", [(1, 0), (4, 0), (2**36, 0), (2, 1), (1, 2, 0), (0, 0)])
def test_groups_without_bounds_are_refused(op: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    given = blocks_of(tmp_path / "records", [b"x"] * 5)
    assert "input 5" in read_request(op, **{**given, "groups": tf.zeros(shape, tf.int64)})


@pytest.mark.parametrize("name", ["files", "codecs", "versions"])
@pytest.mark.parametrize("op", READS)
def test_names_are_no_matrix(op: str, name: str, tmp_path: Path) -> None:
    given = blocks_of(tmp_path / "records", [b"x"] * 5)
    assert "dimensions" in read_request(op, **{**given, name: tf.fill([2**20, 0], b"")})


def test_empty_turns_of_files_that_there_are_not_are_refused(tmp_path: Path) -> None:
    """A call would go through them one by one."""
    given = blocks_of(tmp_path / "records", [b"x"] * 5)
    given |= {"groups": [[0, 1, 1]], "spans": [[0, 2**36, 0]]}
    files = tf.zeros([2**36, 0], tf.string)
    assert "input 0" in read_request("TfioStoreReadBlocks", **{**given, "files": files})
    given |= {"groups": [[0, 100, 100]], "spans": [[0, 1, 0]] * 100}
    assert "empty turns" in read_request("TfioStoreReadBlocks", **given)


@pytest.mark.parametrize("op", ["TfioStoreReadBlocks", "TfioStoreReadExamples"])
def test_claims_whose_sum_wraps_are_refused(op: str, tmp_path: Path) -> None:
    """A block of 300 records and 32 that claim about 2^59 each come to 5 in 64 bits."""
    given = blocks_of(tmp_path / "records", [b"x" * 100] * 300)
    given["table"] += [[0, 0, MOST, 0, MOST, 2**59 - 1, -1, -1]]
    spans = [[0, 0, 300]] + [[1, 0, 2**59 - 1]] * 31 + [[1, 0, 2**59 - 264]]
    given |= {"spans": spans, "groups": [0, len(spans)]}
    assert "claim" in read_request(op, **given)


def test_a_sum_over_several_groups_does_not_wrap(tmp_path: Path) -> None:
    given = blocks_of(tmp_path / "records", [b"x" * 100] * 300)
    given["table"] += [[0, 0, MOST, 0, MOST, 2**59 - 1, -1, -1]]
    given |= {"spans": [[0, 0, 300], [1, 0, 2**59 - 1]], "groups": [0, 1, 2]}
    given["wanted"] = [0] * 33 + [1] * 32
    assert "claim" in read_request("TfioStoreReadBlocks", **given)


VALUES = {
    "FixedLen": tf.io.FixedLenFeature([2], tf.int64),
    "VarLen": tf.io.VarLenFeature(tf.string),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("declared", [tf.string, tf.int64, tf.float32, tf.uint8, tf.variant])
@pytest.mark.parametrize("op", ["TfioStoreReadExamples", "TfioStoreReadPack"])
def test_outputs_are_of_the_declared_types(
    op: str, kind: str, declared: Any, tmp_path: Path
) -> None:
    value = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * 50]))
    made = {"x": value if kind == "FixedLen" else text}
    record = tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()
    columns = columns_of({"x": VALUES[kind]})
    assert columns is not None
    right = columns.attributes["Tout"]
    given = blocks_of(tmp_path / "records", [record] * 100)
    if op == "TfioStoreReadPack":
        framed = (tmp_path / "records").read_bytes()
        head = np.array([len(framed), 100, 0, 0], "<u8").tobytes()
        inputs = {
            "left": tf.zeros([0], tf.uint8),
            "pack": tf.constant(np.frombuffer(head + framed, np.uint8)),
            "cut": tf.constant([0, 0, 0, 100], tf.int64),
        }
        more = {}
    else:
        inputs, more = request(**given), {"batch_size": 100, **SETTINGS}
    found = call(op, len(right), inputs.values(), {**more, **columns.attributes})
    assert len(found[0]) == 100
    for i, dtype in enumerate(right):
        if dtype == declared:
            continue
        wrong = [*right[:i], declared, *right[i + 1 :]]
        attributes = {**columns.attributes, "Tout": wrong}
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"output {i} .* declared"):
            call(op, len(wrong), inputs.values(), {**more, **attributes})
    if declared != tf.string:
        plain = {"columns": b"", "Tout": [declared]}
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"output 0 .* declared"):
            call(op, 1, inputs.values(), {**more, **plain})


def test_a_window_is_not_read_by_the_spans_of_another_request(tmp_path: Path) -> None:
    """Eager calls share a kernel, and it keeps a window whose batches have not all come."""
    given = blocks_of(tmp_path / "records", [b"not an Example"] * 8)
    columns = columns_of({"x": VALUES["FixedLen"]})
    assert columns is not None
    attributes = {**SETTINGS, "batch_size": 4, **columns.attributes}
    far = {**given, "spans": [[0, 0, 8]] * 100_001, "groups": [100_000, 100_001]}
    for asked in (far, given):
        inputs = request(**{**asked, "wanted": [0, 0, 7]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"offset .* is not a"):
            call("TfioStoreReadExamples", 1, inputs.values(), attributes)


@pytest.mark.parametrize("windows", [-(2**63), -1, 0])
def test_numbers_of_windows_that_there_are_not(windows: int) -> None:
    """The last of them would have the number 2^63 - 1."""
    given = {"window": tf.constant(5, tf.int64), "seed": tf.constant(7, tf.int64)}
    sizes = tf.constant([windows, 2**62, 2**62, 0], tf.int64)
    (rows,) = call("TfioStoreWindowRows", 1, [*given.values(), sizes], {})
    assert rows.numpy().tolist() == [[5, 0, 7]]
    short = {**given, "sizes": tf.zeros([3, 0], tf.int64)}
    assert "input 2" in refused("TfioStoreWindowRows", short)


def test_names_to_show_are_no_matrix(tmp_path: Path) -> None:
    given = blocks_of(tmp_path / "records", [b"x"] * 5)
    inputs = {
        "files": tf.constant(given["files"]),
        "codecs": tf.constant([""]),
        "version": tf.constant(""),
        "position": tf.constant([0, 0, -1], tf.int64),
        "least": tf.constant(1, tf.int64),
        "shown": tf.fill([5, 0], b""),
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match="input 5"):
        call("TfioStorePackStream", 4, inputs.values(), SETTINGS)
    for name in ("files", "codecs", "version"):
        wrong = {**inputs, "shown": tf.constant(["x"]), name: tf.fill([5, 0], b"")}
        with pytest.raises(tf.errors.InvalidArgumentError, match="dimensions"):
            call("TfioStorePackStream", 4, wrong.values(), SETTINGS)


def test_a_name_ends_where_it_ends() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="NUL"):
        call("TfioStorePlainCodec", 2, [tf.constant([b"/etc/passwd\0.x"]), tf.constant("")], {})


def test_batches_of_known_records_skip_no_damage(tmp_path: Path) -> None:
    """A batch whose records were skipped was no batch, and no error."""
    given = blocks_of(tmp_path / "records", [b"x"] * 5) | {"codecs": ["GZIP"]}
    assert "skip_corrupt" in read_request("TfioStoreReadExamples", skip_corrupt=True, **given)


def test_the_fuzzer_draws_every_op(tmp_path: Path) -> None:
    kernels = Path(__file__).parents[2] / "ext/tensorflow/ops/op_kernels.c"
    known = set(re.findall(r'\.name = "(TfioStore\w+)"', kernels.read_text()))
    sound, dice = Sound(tmp_path), random.Random(0)
    assert {sound.draw(dice).op for _ in range(500)} == known


@pytest.mark.parametrize("codec", ["99:x", "@index"])
@pytest.mark.parametrize("op", ["TfioStoreReadBlocks", "TfioStoreReadExamples"])
def test_codecs_that_there_are_not_are_refused(op: str, codec: str, tmp_path: Path) -> None:
    given = blocks_of(tmp_path / "records", [b"x"] * 5) | {"codecs": [codec]}
    assert "codecs must" in read_request(op, **given)
