"""Shared memory in which tensors go from a worker to the training process, and which goes round:
what the training process lets go of takes a later batch.

By torch's own way a worker makes a memory for each tensor's storage, in ``/dev/shm``, and the
training process asks the worker for its descriptor over a socket. That takes it a third of a
millisecond, each page is made anew, and in a container ``/dev/shm`` is often small. Here a piece of
memory is a file without a name. It is asked for once, and both processes keep it mapped.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import threading
import weakref
from collections.abc import Callable
from functools import cache
from itertools import accumulate, pairwise
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, NamedTuple, SupportsIndex

import torch
from torch.utils.data import get_worker_info
from typing_extensions import Self

from tfio_store.storage.retry import log
from tfio_store.torch.epochs import nameless_file

_ALIGNED = 64


def aligned(nbytes: int) -> int:
    """Where the next array begins, in memory that holds several."""
    return -(-nbytes // _ALIGNED) * _ALIGNED


_SPARE = 4
"""Pieces that a worker keeps although nobody uses them: a loader asks a worker for two batches
ahead, one is in the training process, and one is being made."""

_SPARE_BYTES = 16 << 20
"""Or the pieces that these bytes take, if they are more."""

_SMALL = 4 << 10
"""So many bytes are sent by themselves."""

_MOST = 512
"""Pieces that are lent at once. Linux maps 65,530 of them into a process, of all workers."""

_LONG = 1 << 10
"""Byte strings that are longer on average are copied once by each process: pickled, they would go
through a pipe."""

_COPIED = 4 << 20
"""Memory of so many bytes that torch has already shared is copied rather than handed over."""


def _mapped(file: int, nbytes: int) -> torch.Tensor:
    """A file as memory. It may be closed (Python's mmap would keep a descriptor of its own)."""
    return torch.from_file(f"/dev/fd/{file}", shared=True, size=nbytes, dtype=torch.uint8)


def _part(whole: torch.Tensor, nbytes: int, then: Callable[..., object], *given: Any) -> Any:
    """The first bytes of it, and a call when no tensor needs them any more."""
    array = whole.numpy()[:nbytes]
    weakref.finalize(array, then, *given).atexit = False
    return torch.from_numpy(array)


# In a worker: tensors are copied into pieces of memory when a batch is pickled, which the thread of
# the loader's queue does while the worker makes the next batch.


class Columns(dict[str, Any]):
    """A batch, which leaves a worker in one piece of memory: ten columns of it take a third of the
    time of ten tensors."""

    def __copy__(self) -> Self:
        return type(self)(self)  # a loader makes one of each batch, by pickling where it must

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _laid_down(self, dict(self)) or super().__reduce_ex__(protocol)


class Records(list[bytes]):
    """A batch of records as they are, which leaves a worker likewise."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _laid_down(self, list(self)) or super().__reduce_ex__(protocol)


def _laid_down(batch: Any, contents: Any) -> Any:
    """How a batch is pickled in a worker."""
    lender = lender_here()
    if lender is None:
        return None
    layout = _Layout()
    places = layout.placed(contents)
    if not layout.nbytes:
        return None
    memory = lender.memory(layout.nbytes)
    views = _Views(memory)
    for tensor, place in layout.tensors:
        views.at(place).copy_(tensor)
    for strings, start in layout.strings:
        joined = b"".join(strings)  # one call: a loop would give the lock away in its midst
        views.strings[start : start + len(joined)] = joined
    return _laid_out, (type(batch), places, memory.untyped_storage())


class _Place(NamedTuple):
    """Where a tensor lies in a batch's memory."""

    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Strings(NamedTuple):
    """Where byte strings lie end to end."""

    start: int
    lengths: list[int]


class _Layout:
    """Where the tensors and the long byte strings of a batch will lie."""

    def __init__(self) -> None:
        self.tensors: list[tuple[torch.Tensor, _Place]] = []
        self.strings: list[tuple[list[bytes], int]] = []
        self.nbytes = 0

    def placed(self, column: Any) -> Any:
        """The column with places for what lies there. Tensors of kinds that torch alone knows how
        to pickle stay, and so do short strings."""
        if type(column) is torch.Tensor:
            return self._place(column) if _is_plain(column) else column
        if type(column) is dict:
            return {name: self.placed(part) for name, part in column.items()}
        if type(column) is list and set(map(type, column)) == {bytes}:
            return self._strings(column)
        if isinstance(column, tuple) and hasattr(column, "_fields"):
            return type(column)(*map(self.placed, column))
        return column

    def _place(self, tensor: torch.Tensor) -> _Place:
        tensor = tensor.contiguous()
        place = _Place(self.nbytes, tensor.dtype, tuple(tensor.shape), tensor.stride())
        self.tensors.append((tensor, place))
        self.nbytes += aligned(tensor.nbytes)
        return place

    def _strings(self, column: list[bytes]) -> Any:
        lengths = list(map(len, column))
        nbytes = sum(lengths)
        if nbytes < _LONG * len(column):
            return column
        place = _Strings(self.nbytes, lengths)
        self.strings.append((column, place.start))
        self.nbytes += aligned(nbytes)
        return place


def _is_plain(tensor: torch.Tensor) -> bool:
    special = tensor.requires_grad or tensor.is_nested or tensor.is_quantized
    return tensor.is_cpu and tensor.layout is torch.strided and not special


class _Views(dict[torch.dtype, torch.Tensor]):
    """Memory as tensors of one dimension, by their dtypes."""

    def __init__(self, memory: torch.Tensor) -> None:
        self._memory = memory

    def __missing__(self, dtype: torch.dtype) -> torch.Tensor:
        self[dtype] = found = self._memory.view(dtype)
        return found

    @property
    def strings(self) -> memoryview:
        return memoryview(self._memory.numpy())

    def at(self, place: _Place) -> torch.Tensor:
        first = place.start // place.dtype.itemsize
        return self[place.dtype].as_strided(place.shape, place.strides, first)


class _Piece:
    """A piece of memory of this worker."""

    def __init__(self, number: int, nbytes: int) -> None:
        self.number, self.nbytes = number, nbytes
        self.file: int | None = nameless_file("tfio_store.batches")
        """Until the training process is told of it."""
        os.ftruncate(self.file, nbytes)
        self._whole = _mapped(self.file, nbytes)
        self.address = self._whole.data_ptr()
        self.held = False
        """Whether tensors of this process lie in it."""

    def memory(self, nbytes: int) -> torch.Tensor:
        """Its first bytes."""
        return _part(self._whole, nbytes, _let_go, self)

    def close(self) -> None:
        """Close the file. What is mapped stays."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


def _let_go(piece: _Piece) -> None:
    piece.held = False


class _News(NamedTuple):
    """What the training process is told before it borrows a piece."""

    worker: int
    """The worker's process."""
    returned: Any
    """The file in which it tells what it returns, at the first time."""
    file: Any
    nbytes: int
    """The piece and its size, if it is new."""
    dropped: list[int]
    """Pieces that will not come again."""


class Lender:
    """The pieces of memory of this worker, some of them lent to the training process.

    The training process tells which of them it returns by a file of one byte for each piece."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._returned, self._told = nameless_file("tfio_store.returned"), False
        self._count = 0
        self._here: dict[int, _Piece] = {}
        """Those in use and spare ones, by their numbers, the one that came back last at the end."""
        self._lent: dict[int, _Piece] = {}
        self._dropped: list[int] = []
        self._warned = False
        self._lock = threading.Lock()  # of the worker's own thread, and its queue's
        self._by_torch = ForkingPickler._extra_reducers[torch.UntypedStorage]  # type: ignore[attr-defined]
        ForkingPickler.register(torch.UntypedStorage, self._reduced)

    def memory(self, nbytes: int) -> torch.Tensor:
        """Memory for bytes of a batch."""
        piece = self._take(nbytes)
        return torch.empty(nbytes, dtype=torch.uint8) if piece is None else piece.memory(nbytes)

    def _take(self, nbytes: int) -> _Piece | None:
        """A piece for so many bytes. None for few of them, and if too many pieces are lent."""
        if nbytes <= _SMALL:
            return None
        with self._lock:
            self._take_back()
            if len(self._lent) >= _MOST:
                self._warn()
                return None
            fits = [one for one in self._spare() if nbytes <= one.nbytes <= 2 * nbytes]
            piece = min(fits, key=lambda one: one.nbytes, default=None) or self._made(nbytes)
            piece.held = True
            return piece

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the loop keeps %d batches of a worker: more of them are pickled", _MOST)

    def _spare(self) -> list[_Piece]:
        return [one for one in self._here.values() if not one.held]

    def _made(self, nbytes: int) -> _Piece:
        step = max(mmap.PAGESIZE, 1 << (nbytes.bit_length() - 3))
        piece = _Piece(self._count, -(-nbytes // step) * step)
        self._here[piece.number] = piece
        self._count += 1
        return piece

    def _take_back(self) -> None:
        """Find what was returned, and drop what nobody will need."""
        returned = os.pread(self._returned, self._count, 0)
        number = returned.find(1)
        while number >= 0:
            os.pwrite(self._returned, b"\0", number)
            self._here[number] = self._lent.pop(number)
            number = returned.find(1, number + 1)
        spare = self._spare()
        nbytes = sum(one.nbytes for one in spare)
        for piece in spare[: max(0, len(spare) - _SPARE)]:
            if nbytes <= _SPARE_BYTES:
                break
            nbytes -= piece.nbytes
            self._dropped.append(self._here.pop(piece.number).number)
            piece.close()

    def _reduced(self, storage: Any) -> Any:
        """How the memory of a tensor is pickled."""
        nbytes = storage.nbytes()
        if storage.device.type != "cpu" or not nbytes:
            return self._by_torch(storage)
        with self._lock:
            address = storage.data_ptr()
            here = [one for one in self._here.values() if one.held and one.address == address]
        if here:
            return self._lend(here[0], nbytes)
        if nbytes > _COPIED and storage.is_shared():
            return self._by_torch(storage)
        contents = torch.empty(0, dtype=torch.uint8).set_(storage)
        piece = self._take(nbytes)
        if piece is None:
            return _copied, (contents.numpy().tobytes(),)
        memory = piece.memory(nbytes).copy_(contents)
        lent = self._lend(piece, nbytes)
        del memory
        return lent

    def _lend(self, piece: _Piece, nbytes: int) -> Any:
        with self._lock:
            self._lent[piece.number] = self._here.pop(piece.number)
            dropped, self._dropped = self._dropped, []
            returned = None if self._told else DupFd(self._returned)
            file = None if piece.file is None else DupFd(piece.file)
            piece.close()
            self._told = True
        news = None
        if returned or file or dropped:
            news = _News(os.getpid(), returned, file, piece.nbytes, dropped)
        return _borrowed, (self._key, piece.number, nbytes, news)


def lender_here() -> Lender | None:
    """That of this worker; None if this process is none."""
    return None if get_worker_info() is None else _lender_of(os.getpid())


@cache
def _lender_of(_: int) -> Lender:
    return Lender()


# In the training process: tensors lie in what workers lent, until the last of them is gone.


class _Borrower:
    """What the training process knows of one worker's memory."""

    def __init__(self, returned: int, worker: int) -> None:
        self._returned, self._process = returned, os.getpid()
        self.pieces: dict[int, torch.Tensor] = {}
        weakref.finalize(self, os.close, returned)
        children = [one for one in multiprocessing.active_children() if one.pid == worker]
        self._workers = [weakref.ref(one) for one in children]

    def end_with_worker(self, key: bytes) -> None:
        """Forget the worker when its loader does."""
        for worker in self._workers:
            weakref.finalize(worker(), _borrowers.pop, key, None).atexit = False

    def ended(self) -> bool:
        """Whether the worker is gone, or its loader."""
        workers = [worker() for worker in self._workers]
        return any(worker is None or not worker.is_alive() for worker in workers)

    def memory(self, number: int, nbytes: int) -> torch.Tensor:
        """The first bytes of a piece, which goes back when nobody uses it."""
        return _part(self.pieces[number], nbytes, self._give_back, number)

    def _give_back(self, number: int) -> None:
        if os.getpid() == self._process:  # a child that was forked has tensors too
            os.pwrite(self._returned, b"\1", number)


_borrowers: dict[bytes, _Borrower] = {}


def _laid_out(kind: Callable[[Any], Any], places: Any, storage: Any) -> Any:
    views = _Views(torch.empty(0, dtype=torch.uint8).set_(storage))
    return kind(_found(places, views))


def _found(place: Any, views: _Views) -> Any:
    """What `_Layout.placed` has replaced."""
    if type(place) is _Place:
        return views.at(place)
    if type(place) is dict:
        return {name: _found(part, views) for name, part in place.items()}
    if type(place) is _Strings:
        memory = views.strings[place.start :]
        ends = list(accumulate(place.lengths, initial=0))
        return [bytes(memory[start:stop]) for start, stop in pairwise(ends)]
    if isinstance(place, tuple) and hasattr(place, "_fields"):
        return type(place)(*[_found(part, views) for part in place])
    return place


def _copied(contents: bytes) -> torch.UntypedStorage:
    return torch.frombuffer(bytearray(contents), dtype=torch.uint8).untyped_storage()


def _borrowed(key: bytes, number: int, nbytes: int, news: _News | None) -> torch.UntypedStorage:
    if news is not None:
        _hear(key, number, news)
    return _borrowers[key].memory(number, nbytes).untyped_storage()


def _hear(key: bytes, number: int, news: _News) -> None:
    try:
        returned, file = [one and one.detach() for one in (news.returned, news.file)]
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        raise RuntimeError(
            f"worker process {news.worker} ended before its batch was read"
        ) from error
    if returned is not None:
        for other, one in list(_borrowers.items()):
            if one.ended():
                _borrowers.pop(other, None)
        _borrowers[key] = _Borrower(returned, news.worker)
        _borrowers[key].end_with_worker(key)
    pieces = _borrowers[key].pieces
    if file is not None:
        try:
            pieces[number] = _mapped(file, news.nbytes)
        finally:
            os.close(file)
    for gone in news.dropped:
        pieces.pop(gone, None)


os.register_at_fork(after_in_child=_borrowers.clear)
