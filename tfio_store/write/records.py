"""The records that a writer is given: held to a schema or learned from, encoded, cut into runs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from copy import copy
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tfio_store.errors import SchemaError
from tfio_store.example import decode_examples
from tfio_store.example.feature import ROW_LENGTHS
from tfio_store.example.growth import grown, values_of
from tfio_store.example.learned import learned_schema
from tfio_store.example.record_fit import FittingRecords, fit_record
from tfio_store.example.schema import Schema, written_schema
from tfio_store.records.framing import RecordBatch
from tfio_store.records.texts import alike

if TYPE_CHECKING:
    from tfio_store.records.framing import FrameWriter


Run: TypeAlias = "list[Any] | RecordBatch"
"""Consecutive records."""

_RECORDS = 4096


class BytesRun(list[Any]):
    """A run without mappings, at which nobody has to look again: that took a third of the time."""


def is_of_bytes(run: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a run has no mappings."""
    return type(run) is BytesRun or set(map(type, run)) <= {bytes, bytearray}


def runs(records: Iterable[Any] | RecordBatch, nbytes: int, *, number: int = 0) -> Iterator[Run]:
    """Cut ``records`` into runs of about ``nbytes`` at most. A larger record is a run of its
    own. No more of an iterator's records are held at once. ``number``: that of the first record,
    for errors."""
    if isinstance(records, RecordBatch):
        return _cut_batch(records, nbytes)
    if isinstance(records, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError(
            f"records must be an iterable of records, not one {type(records).__name__}; "
            "put a single record in a list"
        )
    if isinstance(records, (list, tuple)):
        return _cut(records, nbytes, number)
    return _take(records, nbytes, number)


def _take(records: Iterable[Any], nbytes: int, first: int) -> Iterator[list[Any]]:
    run: list[Any] = []
    held = 0
    for record in records:
        run.append(record)
        held += (
            len(record) if type(record) is bytes else record_nbytes(record, first + len(run) - 1)
        )
        if held >= nbytes or len(run) == _RECORDS:
            yield run
            first, held, run = first + len(run), 0, []
    if run:
        yield run


def _cut(records: list[Any] | tuple[Any, ...], nbytes: int, number: int) -> Iterator[list[Any]]:
    """The records are there anyway: look at many at once."""
    for first in range(0, len(records), _RECORDS):
        run = records[first : first + _RECORDS]
        if is_of_bytes(run):
            yield from _halved(BytesRun(run), nbytes)
        else:
            sizes = [record_nbytes(record, i) for i, record in enumerate(run, number + first)]
            yield from _by_size(list(run), sizes, nbytes)


def _halved(run: list[Any], nbytes: int) -> Iterator[list[Any]]:
    """Halve until small enough. Even sizes cost one look, uneven sizes a few."""
    if len(run) == 1 or sum(map(len, run)) <= nbytes:
        yield run
        return
    middle = len(run) // 2
    yield from _halved(run[:middle], nbytes)
    yield from _halved(run[middle:], nbytes)


def _by_size(run: list[Any], sizes: list[int], nbytes: int) -> Iterator[list[Any]]:
    start = held = 0
    for number, size in enumerate(sizes):
        held += size
        if held >= nbytes:
            yield run[start : number + 1]
            start, held = number + 1, 0
    if start < len(run):
        yield run[start:]


def record_nbytes(record: Any, number: int | None = None) -> int:
    """The bytes of a record; of a mapping, about how many it will have. TypeError if it is none."""
    if type(record) is bytes:
        return len(record)
    if type(record) is dict or isinstance(record, Mapping):
        return _values_nbytes(record.values())
    try:
        return memoryview(record).nbytes
    except TypeError:
        which = "record" if number is None else f"records[{number}]"
        remedy = "; encode text, such as by .encode()" if isinstance(record, str) else ""
        raise TypeError(
            f"{which} must be bytes-like, or a mapping of features such as a dict, not "
            f"{type(record).__name__}{remedy}"
        ) from None


def _values_nbytes(values: Iterable[Any]) -> int:
    nbytes = 0
    for value in values:
        kind = type(value)
        if kind is int or kind is float:
            nbytes += 8
        elif kind is bytes or kind is str:
            nbytes += len(value)
        elif kind is list or kind is tuple:
            nbytes += _values_nbytes(value)
        else:
            nbytes += getattr(value, "nbytes", 8)  # arrays have it
    return nbytes


def _cut_batch(batch: RecordBatch, nbytes: int) -> Iterator[RecordBatch]:
    if len(batch) == 0:
        return
    number = np.cumsum(batch.lengths) // max(nbytes, 1)
    cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(batch)]
    for start, stop in pairwise(cuts):
        yield batch[start:stop]


def strided(run: Run, first: int, step: int) -> Run:
    """Every ``step``-th record of a run, from record ``first`` on."""
    if isinstance(run, RecordBatch):
        return run.take(np.arange(first, len(run), step))
    return run[first::step]


def sizes(run: Run) -> npt.NDArray[np.int64]:
    """Bytes of each record, without framing."""
    if isinstance(run, RecordBatch):
        return run.lengths
    if is_of_bytes(run):
        return np.fromiter(map(len, run), np.int64, len(run))
    return np.fromiter((memoryview(record).nbytes for record in run), np.int64, len(run))


def write_run(frames: FrameWriter, run: Run) -> int:
    """Frame a run; returns the framed bytes now waiting."""
    if isinstance(run, RecordBatch):
        return frames.write_batch(run)
    try:
        return frames.write_many(run)
    except TypeError:
        if not any(isinstance(record, Mapping) for record in run):
            raise
    return frames.write_many(
        [encoded(record) if isinstance(record, Mapping) else record for record in run]
    )


def framed(
    frames: FrameWriter, records: Iterable[Any] | RecordBatch, nbytes: int
) -> Iterator[None]:
    """Frame all ``records``. Stops whenever about ``nbytes`` may wait, for the caller to take."""
    number = 0
    if type(records) is list:
        number = yield from _framed_bytes(frames, records, nbytes)
        records = records[number:]
    for run in runs(records, nbytes, number=number):
        yield
        write_run(frames, run)
    yield


def _framed_bytes(
    frames: FrameWriter, records: list[Any], nbytes: int
) -> Generator[None, None, int]:
    """Frame a list straight from its records' memory. Returns the number of the record that is
    something else than bytes, and from which on nothing is framed."""
    start = 0
    while start < len(records):
        yield
        try:
            start = frames.write_some(records, start, nbytes)
        except TypeError:
            break  # mappings, or what `runs` refuses by name
    return start


def encoded(record: Mapping[str, Any]) -> bytes:
    """A mapping as a `tf.train.Example`, or a `SequenceExample`."""
    from tfio_store.example import encode_example, encode_sequence_example
    from tfio_store.example.record_fit import SequenceRecord

    if isinstance(record, SequenceRecord):
        return encode_sequence_example(record.context, record.feature_lists)
    return encode_example(record)


# Holds dict records to their dataset's schema, or learns one of them.


class RecordCheck:
    """Fits records to the schema before they are written. SchemaError for a mapping that readers
    could not decode by the schema, or that holds a feature that the schema lacks. Records that are
    bytes pass unchecked. Without a schema it encodes mappings and learns their columns; ``placed``:
    somebody has to see the mappings."""

    def __init__(self, schema: object, *, placed: bool = False) -> None:
        self._learner: Any = None
        self._placed = placed
        self._kept: Mapping[str, Any] | None = None
        self._narrow = Schema({})
        """Features of the dataset to append to that do not take every value of their wire type."""
        self._next_look = 1
        self._schema = None if schema is None else written_schema(schema)
        features = self._schema or Schema({})
        nested = [
            name + ROW_LENGTHS
            for name, feature in features.items()
            if feature.nested and not feature.sequence
        ]
        self._known = {*features, *nested}
        self._fitting = FittingRecords(features)

    def each(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The same runs, fitted."""
        first = 0
        for run in runs:
            if self._schema is None:
                yield self._learn(run, first)
            elif isinstance(run, RecordBatch | BytesRun):
                yield run
            else:
                yield self._fit(run, self._schema, first)
            first += len(run)

    def one(self, record: Any) -> Any:
        """The same record, fitted."""
        if self._schema is None:
            if self._learner is not None:  # what nearly every record of a stream is
                if type(record) is bytes:
                    self._learner.skip(1)
                    return record
                if type(record) is dict and self._kept is None and not self._placed:
                    return self._learner.encode(record)
            return self._learn([record])[0]
        if type(record) is bytes:
            return record
        if record in self._fitting:
            return record if self._placed else encoded(record)
        return self._fit([record], self._schema)[0]

    def appends_to(self, schema: Mapping[str, Any] | None) -> None:
        """Records must go with those of a dataset of this schema (JSON). One that does not is
        refused early: after the first mappings, and at the latest by the commit."""
        if self._schema is None and schema is not None:
            self._kept = schema
            self._narrow = values_of(Schema.from_json(schema))

    def fresh(self) -> RecordCheck:
        """The same, which has learned nothing."""
        fresh = copy(self)
        fresh._learner, fresh._next_look = None, 1
        return fresh

    @property
    def learned(self) -> dict[str, Any] | None:
        """The state of what was learned, None if there was no record. See `joined_states`."""
        return None if self._learner is None else self._learner.state()

    def _learn(self, run: Run, first: int = 0) -> Run:
        from tfio_store.example.codec import new_learner

        if self._learner is None and len(run):
            self._learner = new_learner()
            for record in islice(run, 1):
                _refuse_examples(record)
        if isinstance(run, RecordBatch) or is_of_bytes(run):
            if len(run):
                self._learner.skip(len(run))
            return run
        encoded_run = list(run)
        for i, record in enumerate(run):
            if type(record) is dict or isinstance(record, Mapping):
                encoded_run[i] = self._learner.encode(record)
            else:
                self._learner.skip(1)
        if self._kept is not None:
            self._look(self._kept, len(run))
        if self._narrow:
            self._check_values(encoded_run, run, first)
        return list(run) if self._placed else encoded_run

    def _look(self, kept: Mapping[str, Any], records: int) -> None:
        """ValueError if what was learned so far can't be appended. It looks each time that there
        are twice as many records, which costs little of all. The commit asks again."""
        self._next_look -= records
        if self._next_look > 0:
            return
        state = self._learner.state()
        self._next_look = state["records"]
        try:
            new = learned_schema(state)
            if new is not None:
                grown(Schema.from_json(kept), new, learned=True)
        except ValueError:
            if state["records"] == 1:  # which is not written, and says nothing of others
                self._learner = None
            raise

    def _check_values(self, encoded_run: list[Any], run: Run, first: int) -> None:
        """SchemaError for a mapping whose values readers of the dataset could not decode."""
        numbers = [i for i, record in enumerate(run) if isinstance(record, Mapping)]
        try:
            decode_examples([encoded_run[i] for i in numbers], self._narrow)
        except SchemaError as error:
            reason = f"{error.reason}; the dataset to append to has this schema"
            number = first + numbers[error.record]
            raise SchemaError(reason, feature=error.feature, record=number) from None

    def _fit(self, run: list[Any], schema: Schema, first: int = 0) -> list[Any]:
        """``first``: the number of the first record, for errors."""
        fit, numbers = list(run), []
        for i, record in enumerate(run):
            if not isinstance(record, Mapping) or record in self._fitting:
                continue
            for name in record.keys() - self._known:
                reason = f"is not in the schema{alike(name, schema)}"
                raise SchemaError(reason, feature=str(name), record=first + i)
            fit[i] = fit_record(record, schema, first + i)
            numbers.append(i)
        try:
            decode_examples([encoded(fit[i]) for i in numbers], schema)
        except SchemaError as error:
            number = first + numbers[error.record]
            raise SchemaError(error.reason, feature=error.feature, record=number) from None
        return fit


def _refuse_examples(record: object) -> None:
    """SchemaError for a mapping that holds a record that was not meant to be a feature. All
    others of a stream are like the first one."""
    from tfio_store.example.codec import is_example

    if not isinstance(record, Mapping):
        return
    for name in record:
        if is_example(record[name]):
            reason = (
                "is a serialized Example, and would be a feature of another one; write the value "
                f"itself, or say schema={{{name!r}: 'bytes', ...}}"
            )
            raise SchemaError(reason, feature=str(name), record=0)
