"""`RecordReader` and `RecordSource` against lists."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tfio_store as tfs
from tests.differential.draw import Difference, Draw, hold, same, same_multiset
from tests.differential.sources import Made, World, make_source


def check_reader(draw: Draw, world: World) -> None:
    """Orders, shares and epochs; then a state at any position."""
    with make_source(draw, world) as made:
        steps = draw_steps(draw)
        options = reader_options(draw, made, steps)

        def make() -> tfs.RecordReader:
            return stepped(tfs.RecordReader(made.source, **options), steps)

        epochs = check_order(draw, made, make, steps)
        check_state(draw, make, epochs)


Steps = list[tuple[str, tuple[int, ...]]]


def check_file_object(draw: Draw, world: World) -> None:
    """An open file, from where it stands."""
    with make_source(draw, world, names_of_files=True) as made:
        file = made.files[0]
        junk = draw.random.randbytes(draw.one("before", 0, 0, 1, 700))
        options: dict[str, Any] = (
            {"compression": file.codec} if draw.chance("codec said", 0.3) else {}
        )
        opened: Any = io.BytesIO(junk + file.data)
        if draw.chance("fsspec", 0.5):
            made.place.put("file", junk + file.data)
            opened = made.place.fs.open(made.place.url("file"), "rb")
        with opened:
            opened.seek(len(junk))
            same(read(draw, tfs.RecordReader(opened, **options)), file.records, "records")
            hold(not opened.closed, "the file was closed")


def reader_options(draw: Draw, made: Made, steps: Steps) -> dict[str, Any]:
    options = dict(made.options)
    if len(made.codecs) == 1 and draw.chance("codec said", 0.3):
        options["compression"] = next(iter(made.codecs))
    if draw.chance("skip", 0.2):
        options["on_corrupt"] = "skip"
    if draw.chance("unverified", 0.1):
        options["verify"] = False
    if made.place.root.startswith(("s3://", "/")) and draw.chance("obstore", 0.1):
        options["storage"] = tfs.Storage(options.pop("storage_options"), backend="obstore")
    if not steps and draw.chance("small budget", 0.2):  # a window of a stream must fit
        options["memory_budget"] = 1 << 20
    return options


def draw_steps(draw: Draw) -> Steps:
    kinds = draw.one(
        "order", "", "", "", "", "shuffle", "shuffle", "shard", "shuffle shard", "shard shuffle",
    )  # fmt: skip
    steps: Steps = []
    for kind in kinds.split():
        if kind == "shuffle":
            steps.append((kind, (draw.number("seed", 0, 9), draw.one("window", 1, 2, 3, 16))))
        else:
            count = draw.number("shares", 1, 4)
            steps.append((kind, (draw.random.randrange(count), count)))
    draw.tell("steps", steps)
    return steps


def stepped(reader: tfs.RecordReader, steps: Steps) -> tfs.RecordReader:
    for kind, (first, second) in steps:
        if kind == "shuffle":
            reader = reader.shuffle(first, window=second)
        else:
            reader = reader.shard(first, second)
    return reader


def others(steps: Steps) -> list[Steps]:
    """The same steps for each of the shares."""
    count = next((second for kind, (_, second) in steps if kind == "shard"), 1)
    return [
        [(kind, (i, second) if kind == "shard" else (first, second))
         for kind, (first, second) in steps]
        for i in range(count)
    ]  # fmt: skip


def check_order(
    draw: Draw, made: Made, make: Callable[[], tfs.RecordReader], steps: Steps
) -> list[list[bytes]]:
    """The first two epochs of the reader, held to what is in the source."""
    reader = make()
    epochs = [read(draw, reader), read(draw, reader)]
    same(list(make()), epochs[0], "the first epoch of a second reader")
    hold(reader.skipped == 0, f"{reader.skipped} regions were skipped")
    if not steps:
        same(epochs, [made.records] * 2, "two epochs in order")
        return epochs
    source = tfs.RecordReader(made.source, **made.options)
    shares = [list(stepped(source, each)) for each in others(steps)]
    same_multiset([r for share in shares for r in share], made.records, "all shares")
    if steps[0][0] == "shard" or len(steps) == 1:
        same_multiset(epochs[1], epochs[0], "the second epoch")
    distinct = len(set(epochs[0]))
    if any(kind == "shuffle" for kind, _ in steps) and distinct > 15 and one_window(draw, steps):
        hold(epochs[0] != epochs[1] or len(steps) > 1, "two epochs are in the same order")
    return epochs


def one_window(draw: Draw, steps: Steps) -> bool:
    """Whether so much is shuffled together that two equal orders are no accident."""
    return bool(draw.told["block"] == 1 << 20)


def read(draw: Draw, reader: tfs.RecordReader) -> list[bytes]:
    """An epoch, by records or batches, or first the ones and then the others."""
    how = draw.random.randrange(3)
    if how == 0:
        return list(reader)
    records: list[bytes] = []
    if how == 1:
        iterator = iter(reader)
        for _ in range(draw.random.randrange(20)):
            record = next(iterator, None)
            if record is None:
                return records
            records.append(record)
    for batch in reader.batches():
        records.extend(batch)
    return records


def check_state(
    draw: Draw, make: Callable[[], tfs.RecordReader], epochs: list[list[bytes]]
) -> None:
    """What comes behind a state is what comes behind the reader that it was taken of."""
    reader = make()
    epoch = draw.random.randrange(2)
    if epoch:
        list(reader)
    position = draw.tell("position", draw.random.randint(0, len(epochs[epoch])))
    taken = advance(draw, reader, position)
    same(taken, epochs[epoch][: len(taken)], f"{len(taken)} records of epoch {epoch}")
    again = make()
    state = reader.state()
    if draw.chance("pickled", 0.3):
        again = pickle.loads(pickle.dumps(reader))
    else:
        if draw.chance("restored late", 0.3):
            next(iter(again), None)
        again.restore(json.loads(json.dumps(state)))
    same(stood(again), {**state, "versions": ""}, "the state of the restored reader")
    ended = len(taken) < position
    if not ended:
        same(list(again), epochs[epoch][position:], f"after restoring at {position}")
    if epoch == 0:
        same(list(again), epochs[1], "the epoch after the restored one")


def stood(reader: tfs.RecordReader) -> dict[str, Any]:
    """The state, without the versions of files: a reader learns one when it first reads of it."""
    return {**reader.state(), "versions": ""}


def advance(draw: Draw, reader: tfs.RecordReader, count: int) -> list[bytes]:
    iterator: Iterator[bytes] = iter(reader)
    records: list[bytes] = []
    for _ in range(count):
        record = next(iterator, None)
        if record is None:
            break
        records.append(record)
    return records


def check_source(draw: Draw, world: World) -> None:
    """Numbers, slices, lists, masks and iteration, as a list has them."""
    with make_source(draw, world) as made:
        options = dict(made.options)
        if draw.chance("no cache", 0.3):
            options["cache_bytes"] = 0
        if not made.has_blocks:
            try:
                tfs.RecordSource(made.source, **options)
            except ValueError as error:
                hold("stream" in str(error), f"the error is {error!r}")
                return
            # an empty file has no compression
            hold(not made.records, "a stream was taken for a source of blocks")
            return
        source = indexed(draw, made, options)
        if draw.chance("pickled", 0.2):
            source = pickle.loads(pickle.dumps(source))
        check_indices(draw, source, made.records)


def indexed(draw: Draw, made: Made, options: dict[str, Any]) -> tfs.RecordSource:
    """The source by its own files, by text indexes, or by an index that was built."""
    files: list[Any] = made.source if isinstance(made.source, list) else []
    forms = ["", "", *(["built"] if len(made.codecs) == 1 else [])]
    forms += ["idx"] if made.codecs == {None} else []
    how = draw.one("index", *forms) if files and not made.committed else ""
    where = {"storage_options": options["storage_options"]}
    if how == "built":
        wrong = len(set(files)) < len(files) or any("%" in url for url in files)
        if wrong:
            built = lambda: tfs.build_index(files, made.place.url("built"), **where)  # noqa: E731
            raises(ValueError, built, "build_index with names that no manifest holds")
            return tfs.RecordSource(made.source, **options)
        tfs.build_index(files, made.place.url("built"), **where)
        return tfs.RecordSource(made.place.url("built"), **options)
    if how == "idx":
        urls = []
        for i, file in enumerate(made.files):
            sizes = [len(record) + 16 for record in file.records]
            starts = np.cumsum([0, *sizes])
            lines = "".join(f"{at} {size}\n" for at, size in zip(starts, sizes, strict=False))
            urls.append(made.place.put(f"{i}.idx", lines.encode()))
        options = {**options, "idx": urls}
    return tfs.RecordSource(made.source, **options)


def check_indices(draw: Draw, source: tfs.RecordSource, records: list[bytes]) -> None:
    rng, count = draw.random, len(records)
    same(len(source), count, "len")
    for _ in range(4):
        cut = slice(*(rng.choice((None, rng.randint(-count - 2, count + 2))) for _ in range(2)),  # type: ignore[call-overload]
                    rng.choice((None, 1, -1, 2, -3)))  # fmt: skip
        same(source[cut], records[cut], f"source[{cut}]")
    if draw.chance("iterated", 0.3):
        same(list(source), records, "iteration")
    for wrong in (count, -count - 1, 2**40):
        raises(IndexError, lambda wrong=wrong: source[wrong], f"source[{wrong}]")
    if not count:
        same(source[[]], [], "source[[]]")
        return
    numbers = [rng.randrange(-count, count) for _ in range(rng.randrange(12))]
    wanted = [records[i] for i in numbers]
    same(source[numbers], wanted, f"source[{numbers}]")
    same(source[tuple(numbers)], wanted, "a tuple")
    same(source[np.array(numbers, draw.one("dtype", "i1", "i2", "i4", "i8", "O"))], wanted, "array")
    same(source.__getitems__(numbers), wanted, "__getitems__")
    positive = np.array([i % count for i in numbers], draw.one("unsigned", "u1", "u2", "u4", "u8"))
    same(source[positive], wanted, "an unsigned array")
    at = rng.randrange(-count, count)
    for number in (at, np.int64(at), np.array(at)):
        same(source[number], records[at], f"source[{number!r}]")
    mask = [rng.random() < 0.5 for _ in range(count)]
    wanted = [record for record, taken in zip(records, mask, strict=True) if taken]
    same(source[mask], wanted, "a list as a mask")
    same(source[np.array(mask)], wanted, "a mask")
    check_refused(source)


def check_refused(source: tfs.RecordSource) -> None:
    """What a list or an array would not take either, by the same errors."""
    raises(IndexError, lambda: source[[True] * (len(source) + 1)], "a mask too long")
    raises(IndexError, lambda: source[[0, len(source)]], "a list with a number too large")
    raises(IndexError, lambda: source[2**70], "source[2**70]")
    for wrong in (None, "0", b"\0", 0.0, [0.0], {0: 1}, [None], True):
        raises(TypeError, lambda wrong=wrong: source[wrong], f"source[{wrong!r}]")


def raises(kind: type[Exception], make: Callable[[], Any], what: str) -> None:
    try:
        found = make()
    except kind:
        return
    except Exception as error:
        raise Difference(f"{what} raised {error!r}, not {kind.__name__}") from error
    raise Difference(f"{what} gave {found!r:.100} and raised no {kind.__name__}")
