"""`Codec`: all that the library asks of a compression. No I/O.

A codec is one class in one file, and one line of `tfio_store.records.compression.CODECS`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import Reason


class StreamError(Exception):
    """Compressed bytes that do not decode; ``truncated`` if more of them could have."""

    def __init__(self, reason: str, *, truncated: bool = False) -> None:
        super().__init__(reason)
        self.kind = Reason.SHORT_STREAM if truncated else Reason.STREAM


def optional(module: str) -> Any:
    """A module that may not be installed, or None."""
    try:
        return import_module(module)
    except ImportError:
        return None


class Codec(ABC):
    """How shards and foreign streams are compressed. Stateless: any number of threads may use one.

    A shard is ``header``, then `compress` of each block in order, then `trailer`. Each piece can be
    decompressed by itself, so blocks are read at random and by many threads.
    """

    name: ClassVar[str]
    """As ``compression=``, manifests and `tf.data` have it."""
    levels: ClassVar[tuple[int, int, int]]
    """The least level, the greatest, and the default."""
    most_ratio: ClassVar[int]
    """How many bytes one compressed byte may stand for."""
    header: ClassVar[bytes] = b""
    """The bytes of a shard before its first block."""
    EMPTY: ClassVar[int] = 1
    """The checksum of no blocks."""

    step: ClassVar[int]
    """Bytes of input at a time while damage is looked for. It is fixed, so that the result does not
    depend on how the data are fed."""
    beginning: ClassVar[re.Pattern[bytes] | None]
    """How a member of a stream begins. None: nothing marks it."""
    bounded: ClassVar[bool] = True
    """Whether its decoders limit their output, and can be copied."""
    padded: ClassVar[bool] = False
    """Whether some tools put zeros behind a member."""
    ends: ClassVar[bool] = True
    """Whether data without the end of a member are cut off."""
    container: ClassVar[int | None] = None
    """The number of the deflate container, of whose streams there are checkpoints. None: streams of
    this codec cannot be indexed."""
    as_tensorflow: ClassVar[bool] = False
    """Whether TensorFlow reads files of it as this library does."""

    def checked_name(self) -> str:
        """`name`. ImportError, which says what to install, where the codec's library is missing."""
        return self.name

    @property
    def piece(self) -> Codec:
        """The codec of one block by itself."""
        return self

    @abstractmethod
    def compress(self, block: BytesLike, level: int) -> BytesLike:
        """A block as a piece of a shard of its own."""

    def checksum(self, block: BytesLike) -> int:
        """The checksum of a block, for the trailer."""
        del block
        return self.EMPTY

    def add(self, checksum: int, of_block: int, block_bytes: int) -> int:
        """Extend the checksum of the blocks so far by that of a block of ``block_bytes`` bytes."""
        del checksum, of_block, block_bytes
        return self.EMPTY

    def trailer(self, checksum: int, *, level: int, empty: bool) -> bytes:
        """The end of a shard. ``empty``: no block was written, yet the file must be valid."""
        del checksum
        return bytes(self.compress(b"", level)) if empty else b""

    def decompress_known(self, data: BytesLike, nbytes: int) -> BytesLike | None:
        """A piece that should decompress to ``nbytes``, at once. None: go by steps, which also find
        out what is wrong. It allocates no more than ``nbytes``, whatever ``data`` claims."""
        del data, nbytes
        return None

    @abstractmethod
    def member(self, *, copyable: bool = False) -> Any:
        """A decoder of one member, frame or stream, as Python's zlib has them. ``copyable``: with
        ``copy()``, if the codec is ``bounded``."""

    @property
    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that its decoders raise for bytes that do not decode."""

    @abstractmethod
    def begins(self, head: bytes) -> bool:
        """Whether an object of these first bytes, 64 or more if it has them, is of this codec."""
