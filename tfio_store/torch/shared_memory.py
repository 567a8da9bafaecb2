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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.data import get_worker_info
from typing_extensions import Self

from tfio_store.storage.retry import log
from tfio_store.torch.epochs import nameless_file, queues_given
from tfio_store.torch.layout import Layout, Views, is_plain, placed_back

_SPARE = 2
"""Pieces that a worker keeps although nobody uses them."""

_SPARE_BYTES = 16 << 20
"""Or the pieces that these bytes take, if they are more."""

_SMALL = 4 << 10
"""So many bytes are sent by themselves."""

_MOST = 512
"""Pieces that are lent at once. Linux maps 65,530 of them into a process, of all workers."""

_DONE, _DROPPED = b"\1", b"\2"
"""What the training process says of a piece: it may be used again, or not."""

_SHARED = 4 << 20
"""A tensor of so many bytes is left to torch if its memory is shared, or was sent before."""


def _mapped(file: int, nbytes: int) -> torch.Tensor:
    """A file as memory. It may be closed (Python's mmap would keep a descriptor of its own)."""
    return torch.from_file(f"/dev/fd/{file}", shared=True, size=nbytes, dtype=torch.uint8)


# In a worker: a batch is copied into a piece of memory when it is pickled. The thread of a queue of
# the loader does that, while the worker makes the next one. Nobody else who pickles or copies a
# batch in a worker has to do with this.


class SharedColumns(dict[str, Any]):
    """A batch, which leaves a worker in one piece of memory: ten columns of it take a third of the
    time of ten tensors."""

    def __copy__(self) -> Self:
        return type(self)(self)  # a loader makes one of each batch, by pickling where it must

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _sent(self, dict(self)) or super().__reduce_ex__(protocol)


class SharedRecords(list[bytes]):
    """A batch of records as they are, which leaves a worker likewise."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _sent(self, list(self)) or super().__reduce_ex__(protocol)


def _sent(batch: Any, contents: Any) -> Any:
    """How a batch is pickled for the training process. None if it is for anybody else."""
    sender = _sender()
    if sender is None or not sender.sends():
        return None
    layout = Layout()
    places = layout.placed(contents)
    if not layout.nbytes:
        return None
    return _laid_out, (*sender.send(layout), type(batch), places)


class _SharedPiece:
    """A piece of memory of this worker."""

    def __init__(self, number: int, nbytes: int) -> None:
        self.number, self.nbytes = number, nbytes
        self.file: int | None = nameless_file("tfio_store.batches")
        """Until the training process is told of it."""
        os.ftruncate(self.file, nbytes)
        self.memory = _mapped(self.file, nbytes)

    def close(self) -> None:
        """Close the file. What is mapped stays."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


class _News(NamedTuple):
    """What the training process must know before it borrows a piece: it hears of it as soon as its
    pickle is read."""

    key: bytes
    worker: int
    """The worker's own number, and its process."""
    returned: Any
    """The file in which it is told what is given back, at the first time."""
    number: int
    file: Any
    nbytes: int
    """The piece, if it is new."""
    dropped: list[int]
    """Pieces that will not come again."""

    def __reduce__(self) -> Any:
        return _hear, tuple(self)


class Sender:
    """The pieces of memory of this worker, some of them lent to the training process.

    The training process tells what it has done with by a file of one byte for each piece."""

    def __init__(self) -> None:
        self._queues = queues_given()
        self._key = os.urandom(16)
        self._returned, self._told = nameless_file("tfio_store.returned"), False
        self._count = 0
        self._spare: dict[int, _SharedPiece] = {}
        """By their numbers, the one that came back last at the end."""
        self._lent: dict[int, _SharedPiece] = {}
        self._dropped: list[int] = []
        self._warned = False
        self._large: dict[int, StorageWeakRef] = {}
        """The memory of long tensors that were sent, as far as it lives, by addresses."""
        self._by_torch = ForkingPickler._extra_reducers[torch.Tensor]  # type: ignore[attr-defined]
        ForkingPickler.register(torch.Tensor, self._tensor)

    def sends(self) -> bool:
        """Whether this is the thread that sends to the training process, and no other pickles."""
        thread = threading.current_thread()
        return any(queue._thread is thread for queue in self._queues)  # type: ignore[attr-defined]

    def send(self, layout: Layout) -> Any:
        """What gives the training process the memory: a function, and its arguments."""
        piece = self._taken(layout.nbytes)
        if piece is None:
            memory = torch.empty(layout.nbytes, dtype=torch.uint8)
            layout.fill(memory)
            return _copied, (memory.numpy().tobytes(),)
        layout.fill(piece.memory)
        news = self._lend(piece)
        return _received, (news, self._key, piece.number, layout.nbytes)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        """How a tensor is pickled that has no place in a batch."""
        if not (self.sends() and is_plain(tensor) and tensor.nbytes) or self._is_torchs(tensor):
            return self._by_torch(tensor)
        layout = Layout()
        place = layout.place(tensor)
        return _laid_out, (*self.send(layout), _itself, place)

    def _is_torchs(self, tensor: torch.Tensor) -> bool:
        """Whether torch need not copy it, for it is a part of what is shared already, or will be
        sent again and again."""
        if tensor.nbytes < _SHARED:
            return False
        storage = tensor.untyped_storage()
        known = self._large.get(storage.data_ptr())
        self._large = {at: one for at, one in self._large.items() if not one.expired()}
        self._large[storage.data_ptr()] = StorageWeakRef(storage)
        return storage.is_shared() or (known is not None and not known.expired())

    def _taken(self, nbytes: int) -> _SharedPiece | None:
        """A piece for so many bytes. None for few of them, and if too many pieces are lent."""
        if nbytes <= _SMALL:
            return None
        self._take_back()
        if len(self._lent) >= _MOST:
            self._warn()
            return None
        fits = [one for one in self._spare.values() if nbytes <= one.nbytes <= 2 * nbytes]
        if fits:
            return min(fits, key=lambda one: one.nbytes)
        step = max(mmap.PAGESIZE, 1 << (nbytes.bit_length() - 3))
        piece = self._spare[self._count] = _SharedPiece(self._count, -(-nbytes // step) * step)
        self._count += 1
        return piece

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the loop keeps %d batches of a worker: more of them are pickled", _MOST)

    def _take_back(self) -> None:
        """Find what was given back, and drop what nobody will need."""
        said = os.pread(self._returned, self._count, 0)
        for number in np.flatnonzero(np.frombuffer(said, np.uint8)).tolist():
            os.pwrite(self._returned, b"\0", number)
            piece = self._lent.pop(number)
            if said[number] == _DONE[0]:
                self._spare[number] = piece
            else:
                self._dropped.append(number)
        nbytes = sum(one.nbytes for one in self._spare.values())
        while len(self._spare) > _SPARE and nbytes > _SPARE_BYTES:
            oldest = self._spare.pop(next(iter(self._spare)))
            nbytes -= oldest.nbytes
            oldest.close()
            self._dropped.append(oldest.number)

    def _lend(self, piece: _SharedPiece) -> _News | None:
        """Lend a piece, and say what the training process does not know."""
        returned = None if self._told else DupFd(self._returned)
        file = None if piece.file is None else DupFd(piece.file)
        piece.close()
        dropped, self._dropped, self._told = self._dropped, [], True
        self._lent[piece.number] = self._spare.pop(piece.number)
        if not (returned or file or dropped):
            return None
        about = piece.number, file, piece.nbytes
        return _News(self._key, os.getpid(), returned, *about, dropped)


def share_memory() -> None:
    """In a worker: have all tensors that it sends go by it, whatever is made of them."""
    _sender()


def _sender() -> Sender | None:
    """That of this worker; None if this process is none."""
    return None if get_worker_info() is None else _sender_of(os.getpid())


@cache
def _sender_of(_: int) -> Sender:
    return Sender()


# In the training process: tensors lie in what workers lent, until the last of them is gone.


class _Receiver:
    """What the training process knows of one worker's memory."""

    def __init__(self, key: bytes, returned: int, worker: int) -> None:
        self._returned = _Returned(returned)
        self.pieces: dict[int, torch.Tensor] = {}
        children = [one for one in multiprocessing.active_children() if one.pid == worker]
        self._workers = [weakref.ref(one) for one in children]
        for one in children:  # when the loader forgets it
            weakref.finalize(one, _receivers.pop, key, None).atexit = False

    def ended(self) -> bool:
        """Whether the worker is gone. torch never forgets those that stay and whose batches it
        pins."""
        workers = [worker() for worker in self._workers]
        return any(worker is None or not worker.is_alive() for worker in workers)

    def memory(self, number: int, nbytes: int) -> torch.Tensor:
        """The first bytes of a piece, which goes back when nobody uses it."""
        array = self.pieces[number].numpy()[:nbytes]
        weakref.finalize(array, self._returned.tell, number, len(_forks)).atexit = False
        return torch.from_numpy(array)


class _Returned:
    """The file that tells a worker which pieces it has back. It outlives what is known of the
    worker: tensors do."""

    def __init__(self, file: int) -> None:
        self._file, self._process = file, os.getpid()
        # a program that ends closes it, and threads may still have tensors then
        weakref.finalize(self, os.close, file).atexit = False

    def tell(self, number: int, forks: int) -> None:
        """A child that was forked meanwhile has the tensors too, and gives nothing back."""
        if os.getpid() == self._process:
            os.pwrite(self._file, _DONE if forks == len(_forks) else _DROPPED, number)


_receivers: dict[bytes, _Receiver] = {}

_forks: list[None] = []
"""Some for each child that this process has forked."""


def _laid_out(
    memory: Callable[..., torch.Tensor], given: Any, kind: Callable[[Any], Any], places: Any
) -> Any:
    return kind(placed_back(places, Views(memory(*given))))


def _itself(found: Any) -> Any:
    return found


_pickled: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""The memory of what came in its pickle, by addresses."""


def _copied(contents: bytes) -> torch.Tensor:
    array = np.frombuffer(bytearray(contents), np.uint8)
    memory = torch.from_numpy(array)
    _pickled[memory.data_ptr()] = array
    _send_copies()
    return memory


def _received(_: None, key: bytes, number: int, nbytes: int) -> torch.Tensor:
    """``_``: what was heard, which is read first; see `_News`."""
    with _all_came():
        return _receivers[key].memory(number, nbytes)


@contextmanager
def _all_came() -> Iterator[None]:
    """RuntimeError for what should be known by now."""
    try:
        yield
    except KeyError:
        raise RuntimeError(
            "an earlier batch of this worker could not be pickled, and did not come; the worker's "
            "own message says why"
        ) from None


def _hear(
    key: bytes, worker: int, returned: Any, number: int, file: Any, nbytes: int, dropped: list[int]
) -> None:
    try:
        returned, file = [one and one.detach() for one in (returned, file)]
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        raise RuntimeError(f"worker process {worker} ended before its batch was read") from error
    if returned is not None:
        _send_copies()
        for other, one in list(_receivers.items()):
            if one.ended():
                _receivers.pop(other, None)
        _receivers[key] = _Receiver(key, returned, worker)
    try:
        with _all_came():
            pieces = _receivers[key].pieces
        if file is not None:
            pieces[number] = _mapped(file, nbytes)
    finally:
        if file is not None:
            os.close(file)
    for gone in dropped:
        pieces.pop(gone, None)


@cache
def _send_copies() -> None:
    """Have this process send copies of what workers sent to others. torch would move a tensor to
    memory of its own, and an array that somebody has of it would stay in what goes back."""
    by_torch = ForkingPickler._extra_reducers[torch.UntypedStorage]  # type: ignore[attr-defined]

    def reduced(storage: Any) -> Any:
        address = storage.data_ptr()
        lent = [piece for one in _receivers.values() for piece in one.pieces.values()]
        is_sent = address in _pickled or any(piece.data_ptr() == address for piece in lent)
        return by_torch(storage.clone() if is_sent else storage)

    ForkingPickler.register(torch.UntypedStorage, reduced)


_note = partial(_forks.append, None)
os.register_at_fork(before=_note, after_in_parent=_note, after_in_child=_receivers.clear)
