"""`TFRecordIterable` gives each record once an epoch, whoever reads it, in other orders."""

from __future__ import annotations

import gzip
import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tests.support.long import first
from tests.training.loading import COUNT, loader, numbers, torch_data, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import NullableTensor, RaggedTensor, TFRecordIterable  # noqa: E402

ALL = list(range(COUNT))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(str(tmp_path / "train"))


def check_epochs(url: str, workers: int, method: str, ranks: int, **options: Any) -> None:
    """Two epochs of all ranks: each record once in each, in another order if it is shuffled, and in
    the same one for the same seed."""
    orders = []
    for _ in range(2):
        read: list[list[int]] = [[], []]
        for rank in range(ranks):
            dataset = TFRecordIterable(url, batch_size=64, rank=rank, world_size=ranks, **options)
            with_workers = loader(dataset, workers, method, persistent_workers=workers > 0)
            for epoch in range(2):
                read[epoch] += numbers(with_workers)
            del with_workers
        assert [sorted(order) for order in read] == [ALL, ALL]
        assert (read[0] != read[1]) == options.get("shuffle", False)
        orders.append(read)
        if method != "fork":
            return  # which takes seconds
    assert orders[0] == orders[1]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_each_record_once(url: str, workers: int, shuffle: bool) -> None:
    check_epochs(url, workers, "fork", 1, shuffle=shuffle, seed=5)


@pytest.mark.parametrize("method", first(1, ["spawn", "forkserver"]))
def test_each_record_once_of_workers_that_are_not_forked(url: str, method: str) -> None:
    check_epochs(url, 2, method, 1, shuffle=True)


def test_each_record_once_from_s3(s3: Place) -> None:
    url = written(s3.url("train"), storage_options=s3.storage_options)
    check_epochs(url, 2, "fork", 2, shuffle=True, storage_options=s3.storage_options)


@pytest.mark.long
@pytest.mark.parametrize(
    ("workers", "method", "ranks", "shuffle"),
    [
        *product([0], ["fork"], [1, 2], [False, True]),
        *product([1, 2, 3], ["fork", "spawn", "forkserver"], [1, 2], [False, True]),
    ],
)
@pytest.mark.parametrize("where", ["local", "s3"])
def test_each_record_once_of_all_kinds_of_workers(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    where: str,
    workers: int,
    method: str,
    ranks: int,
    shuffle: bool,
) -> None:
    url, options = str(tmp_path / "train"), None
    if where == "s3":
        place: Place = request.getfixturevalue("s3")
        url, options = place.url("train"), place.storage_options
    written(url, storage_options=options)
    check_epochs(url, workers, method, ranks, shuffle=shuffle, storage_options=options)


# Even shares


def sizes(url: str, rank: int, **options: Any) -> list[int]:
    dataset = TFRecordIterable(url, batch_size=32, rank=rank, world_size=4, **options)
    return [len(batch["x"]) for batch in loader(dataset, 2)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("even", "each"), [("pad", 126), ("drop", 125)])
def test_even_shares_have_equal_batches(url: str, even: str, each: int, shuffle: bool) -> None:
    found = [sizes(url, rank, even=even, shuffle=shuffle) for rank in range(4)]
    assert found[0] == found[1] == found[2] == found[3]
    assert sum(found[0]) == 2 * each


def test_the_last_batches_are_left_out(url: str) -> None:
    for rank in range(4):
        assert sizes(url, rank, even="drop", drop_last=True) == [32] * 6


def test_len_needs_the_number_of_workers(url: str) -> None:
    assert TFRecordIterable(url, batch_size=32)
    with pytest.raises(TypeError, match="pass num_workers= to TFRecordIterable too"):
        len(TFRecordIterable(url, batch_size=32))
    with pytest.raises(ValueError, match="num_workers=3, and the loader has 2 workers"):
        list(loader(TFRecordIterable(url, batch_size=32, num_workers=3), 2))


def test_streams_have_no_even_shares(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(framed([b"a", b"b"])))
    with pytest.raises(ValueError, match=r"x\.gz"):
        TFRecordIterable(str(tmp_path / "x.gz"), batch_size=64, even="pad")


# What a batch is


SCHEMA = tfs.Schema(
    {
        "scalar": "int64",
        "vector": ("float32", (2,)),
        "flag": "bool",
        "small": "uint16",
        "half": tfs.Feature("bfloat16", (2,), raw=True),
        "time": tfs.Feature("datetime64[us]", raw=True),
        "name": "str",
        "data": "bytes",
        "words": ("str", (None,)),
        "ids": ("int64", (None,)),
        "pairs": ("float32", (None, 2)),
        "deep": ("int64", (None, None)),
        "image": tfs.Feature("uint8", (None,), raw=True),
        "maybe": tfs.Feature("int64", nullable=True),
        "maybe_name": tfs.Feature("str", nullable=True),
        "maybe_ids": tfs.Feature("int64", (None,), nullable=True),
    }
)


def row(i: int) -> dict[str, Any]:
    half = np.zeros(2, SCHEMA["half"].item_dtype()) + i
    null = i % 3 == 0
    return {
        "scalar": i,
        "vector": [float(i), i / 2],
        "flag": i % 2 == 0,
        "small": 65535 - i,
        "half": half,
        "time": np.datetime64(i, "us"),
        "name": f"é{i}",
        "data": b"\xff" * i,
        "words": ["w"] * (i % 3),
        "ids": [i] * (i % 4),
        "pairs": [[float(i)] * 2] * (i % 3),
        "deep": tfs.Ragged.from_rows([[i] * k for k in range(i % 3)], dtype=np.int64),
        "image": np.arange(i % 5, dtype=np.uint8),
        "maybe": None if null else i,
        "maybe_name": None if null else f"n{i}",
        "maybe_ids": None if null else [i, i],
    }


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    """40 rows of all kinds of features, a few in each block."""
    url = str(tmp_path / "kinds")
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096, schema=SCHEMA) as writer:
        for i in range(40):
            writer.write(row(i))
    return url


def plain(value: Any) -> Any:
    """Lists of what a column of a batch holds."""
    if isinstance(value, NullableTensor):
        pairs = zip(plain(value.values), value.valid.tolist(), strict=True)
        return [each if valid else None for each, valid in pairs]
    if isinstance(value, RaggedTensor):
        return [plain(each) for each in value.rows()]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def expected(name: str, i: int) -> Any:
    value = row(i)[name]
    if name == "time":
        return i
    if name == "half":
        return [float(i)] * 2
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("size", [1, 7, 40, 64])
def test_batches_of_all_kinds(kinds: str, size: int, workers: int) -> None:
    at = 0
    for batch in loader(TFRecordIterable(kinds, batch_size=size), workers):
        rows = range(at, min(at + size, 40))
        for name in SCHEMA:
            assert plain(batch[name]) == [expected(name, i) for i in rows], name
        at += len(rows)
    assert at == 40


def test_dtypes_and_types(kinds: str) -> None:
    batch = next(iter(TFRecordIterable(kinds, batch_size=40)))
    dtypes = {n: c.dtype for n, c in batch.items() if isinstance(c, torch.Tensor)}
    assert dtypes == {
        "scalar": torch.int64,
        "vector": torch.float32,
        "flag": torch.bool,
        "small": torch.uint16,
        "half": torch.bfloat16,
        "time": torch.int64,
    }
    assert batch["image"].values.dtype == torch.uint8
    assert batch["maybe"].values.dtype == torch.int64
    assert isinstance(batch["deep"].values, RaggedTensor)
    assert isinstance(batch["maybe_ids"].values, RaggedTensor)
    batch["scalar"] += 1  # memory of its own


@pytest.mark.parametrize("workers", [0, 1])
def test_single_rows(kinds: str, workers: int) -> None:
    rows = list(loader(TFRecordIterable(kinds), workers))
    assert len(rows) == 40
    for i, found in enumerate(rows):
        for name in SCHEMA:
            assert plain(found[name]) == expected(name, i), name


def test_single_rows_in_batches_of_the_loader(url: str) -> None:
    batches = list(torch_data.DataLoader(TFRecordIterable(url), batch_size=100, num_workers=1))
    assert sorted(numbers(batches)) == ALL
    assert batches[0]["x"].dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.bool])
def test_ragged_rows_of_any_dtype_are_padded(dtype: Any) -> None:
    ragged = RaggedTensor(torch.ones(3, dtype=dtype), torch.tensor([0, 2, 3, 3]))
    assert ragged.padded().dtype == dtype
    assert ragged.padded().tolist() == [[1, 1], [1, 0], [0, 0]]
    assert ragged.padded(fill=1).tolist() == [[1, 1]] * 3


def test_columns(kinds: str) -> None:
    batch = next(iter(TFRecordIterable(kinds, batch_size=5, columns=["name", "scalar"])))
    assert list(batch) == ["name", "scalar"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [None, 7])
def test_records_as_bytes(tmp_path: Path, size: int | None, workers: int) -> None:
    records = [b"%d" % i for i in range(100)]
    (tmp_path / "x").write_bytes(framed(records[:50]))
    (tmp_path / "y").write_bytes(framed(records[50:]))
    dataset = TFRecordIterable([str(tmp_path / "x"), str(tmp_path / "y")], batch_size=size)
    assert dataset.schema is None
    found = list(loader(dataset, workers))
    if size is not None:
        assert all(isinstance(batch, list) and len(batch) <= size for batch in found)
        found = [record for batch in found for record in batch]
    assert sorted(found) == sorted(records)


def test_records_as_bytes_though_there_is_a_schema(url: str) -> None:
    (record,) = next(iter(TFRecordIterable(url, batch_size=1, schema="bytes")))
    assert tfs.decode_examples([record], {"x": "int64"})["x"][0] == 0


def test_more_shares_than_records(tmp_path: Path) -> None:
    url = written(str(tmp_path / "few"), 3)
    shares = [
        numbers(loader(TFRecordIterable(url, batch_size=2, rank=rank, world_size=8, even=even), 0))
        for even in ("pad", "drop", None)
        for rank in range(8)
    ]
    assert [len(share) for share in shares[:16]] == [1] * 8 + [0] * 8
    assert sorted(chain.from_iterable(shares[16:])) == [0, 1, 2]


# Wrong arguments


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"batch_size": 0}, ValueError, "batch_size= must be a positive integer of rows, or None"),
        ({"batch_size": 2.5}, ValueError, "batch_size="),
        ({"num_workers": -1}, ValueError, "num_workers="),
        ({"columns": "x"}, TypeError, r"columns= takes a list of names, not one: pass \['x'\]"),
        ({"drop_last": True}, ValueError, "drop_last="),
        ({"rank": 0}, ValueError, "rank= and world_size= go together"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank= takes 0 to 1"),
        ({"rank": 0, "world_size": 0}, ValueError, "world_size= takes 1 or more"),
        ({"even": "both"}, ValueError, "even="),
        ({"shuffle": True, "seed": -1}, ValueError, "seed="),
        ({"columns": ["y"]}, KeyError, "no feature 'y'; there are x"),
        ({"columns": []}, ValueError, "leave no feature"),
        ({"schema": "bytes", "columns": ["x"]}, ValueError, "pass schema="),
        ({"schema": 5}, TypeError, "schema="),
        ({"schema": {"x": tfs.Feature("S3", raw=True)}}, TypeError, "'x': torch has no dtype"),
    ],
)
def test_wrong_arguments(
    url: str, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        TFRecordIterable(url, **options)


def test_a_file_object_is_no_source() -> None:
    with pytest.raises(ValueError, match="source= is a file object"):
        TFRecordIterable(io.BytesIO(), batch_size=64)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_of_batches_are_refused(url: str, workers: int) -> None:
    """They held rows in one more dimension, in silence. The loader's own default is 1."""
    schemas: tuple[Any, ...] = (None, "bytes")
    for schema in schemas:
        dataset = TFRecordIterable(url, schema=schema, batch_size=8)
        for size in ({"batch_size": 4}, {}):
            with_workers = torch_data.DataLoader(dataset, num_workers=workers, **size)
            with pytest.raises(TypeError, match="batch_size=None to the DataLoader"):
                next(iter(with_workers))
        joined = torch_data.DataLoader(dataset, batch_size=4, collate_fn=list)
        assert [len(batch) for batch in next(iter(joined))] == [8 if schema else 1] * 4


def test_a_batch_is_a_dict_or_a_list(url: str) -> None:
    kinds: dict[Any, type] = {None: dict, "bytes": list}
    for schema, kind in kinds.items():
        for batch in loader(TFRecordIterable(url, schema=schema, batch_size=8), 1):
            assert isinstance(batch, kind)
            assert isinstance(pickle.loads(pickle.dumps(batch)), kind)


@pytest.mark.parametrize("size", [None, 10])
def test_one_thread_at_a_time(url: str, size: int | None) -> None:
    """A second one gets an error, and no record comes twice or is lost."""
    inside, leave = Event(), Event()

    def waits(batch: Any) -> Any:
        inside.set()
        assert leave.wait(60)
        return batch

    steps = iter(TFRecordIterable(url, batch_size=size, transform=waits))
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(next, steps)
        assert inside.wait(60)
        with pytest.raises(RuntimeError, match="in use by another thread"):
            next(steps)
        leave.set()
        found = [held.result(), *steps]
    values = chain.from_iterable(np.atleast_1d(each["x"]).tolist() for each in found)
    assert sorted(values) == ALL
