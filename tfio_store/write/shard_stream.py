"""One shard on its way to the store: records in, an uncommitted object out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from tfio_store.dataset.fingerprint import Fingerprint
from tfio_store.records.framing import FrameWriter
from tfio_store.storage.faults import may_arrive
from tfio_store.write.integrity import check_stored, read_back
from tfio_store.write.shard_layout import Piece, ShardLayout, make_piece

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder
    from tfio_store.dataset.manifest import ShardInfo
    from tfio_store.records.compression import Compressor
    from tfio_store.storage import Output
    from tfio_store.write.held_claim import HeldClaim
    from tfio_store.write.pipeline import Pipeline

__all__ = ["ShardStream"]


class ShardStream:
    """Frames records into blocks, compresses these in parallel, and writes them out in order. All
    methods except `commit` and `info` belong to the caller's thread. If no output is given, an
    upload thread opens one with the first block. So opening many shards waits for no round trip.
    """

    def __init__(
        self,
        name: str,
        pipeline: Pipeline,
        compressor: Compressor,
        open_output: Callable[[], Output],
        *,
        output: Output | None = None,
        block_bytes: int,
        claim: HeldClaim | None = None,
        record_positions: bool | None = False,
    ) -> None:
        self.name = name
        self.frames = FrameWriter(block_bytes)
        self._pipeline = pipeline
        self._compressor = compressor
        self._open_output = open_output
        self._claim = claim
        self._output = output
        self._header = compressor.header
        self._etag: str | None = None
        self.may_be_visible = False
        self._layout = ShardLayout(compressor, record_positions=record_positions)
        self._queue = pipeline.serial()

    def push(self) -> int:
        """Hand over the records that wait in ``frames`` as one block. Returns its bytes before
        compression. Waits while the memory budget is used up. Raises an earlier failure of any
        thread.
        """
        records = self.frames.records
        if not records:
            return 0
        self._pipeline.reserve(self.frames.nbytes)
        block = self.frames.take()
        make: Callable[[], Piece] = partial(make_piece, self._compressor, block, records)
        if self._compressor.codec is not None:
            make = self._pipeline.compute(make).result
        self._queue.submit(partial(self._append, make, block.nbytes))
        return block.nbytes

    def _append(self, make: Callable[[], Piece], nbytes: int) -> None:
        try:
            if not self._pipeline.failed:
                piece = make()
                self._opened().write(self._layout.add(piece))
        except BaseException as error:
            self._pipeline.fail(error)
        finally:
            self._pipeline.release(nbytes)

    def _opened(self) -> Output:
        if self._output is None:
            self._output = self._open_output()
        header, self._header = self._header, b""
        if header:
            self._output.write(header)
        return self._output

    def drained(self) -> Future[None]:
        """Done when the output has taken all blocks pushed so far. Fails if anything failed."""
        return self._queue.submit(self._pipeline.check)

    def end(self) -> Future[None]:
        """Push what waits, and write the trailer. Done when the output has taken every byte."""
        self.push()
        return self._queue.submit(self._end)

    def _end(self) -> None:
        self._pipeline.check()
        try:
            output = self._opened()
            trailer = self._layout.end()
            if trailer:
                output.write(trailer)
        except BaseException as error:
            self._pipeline.fail(error)
            raise

    def commit(self, folder: Folder, *, if_absent: bool, verify: bool) -> Future[None]:
        """After `end`: make the object visible, and check that the store holds what was written."""
        return self._queue.submit(partial(self._commit, folder, if_absent, verify))

    def _commit(self, folder: Folder, if_absent: bool, verify: bool) -> None:
        self._pipeline.check()
        layout, path = self._layout, folder.join(self.name)
        try:
            output = self._opened()
            self.may_be_visible = True
            stored = output.commit(if_absent=if_absent, crc32c=layout.crc32c)
            self._etag = stored.etag
            check_stored(stored, folder.url(self.name), nbytes=layout.nbytes, crc=layout.crc32c)
            if verify and stored.crc32c is None:
                read_back(folder.store, path, nbytes=layout.nbytes, crc=layout.crc32c)
        except BaseException as error:
            self.may_be_visible &= self._etag is not None or may_arrive(error, folder.store)
            self._pipeline.fail(error)
            raise

    def announce(self) -> Future[None]:
        """After `end`: note in the claim what is about to appear."""
        return self._queue.submit(self._announce)

    def _announce(self) -> None:
        if self._claim is None:
            return
        try:
            self._claim.announce([self.fingerprint()])
        except BaseException as error:
            self._pipeline.fail(error)
            raise

    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the shard's object, once the shard has ended."""
        return Fingerprint(self.name, self._layout.nbytes, self._layout.crc32c, self._etag)

    def info(self) -> ShardInfo:
        """What the shard holds, once it has ended."""
        return self._layout.info(self.name)

    def abort(self) -> Future[None]:
        """Drop the object, after the block under way. The pipeline must have failed."""
        return self._queue.submit(self._abort)

    def _abort(self) -> None:
        if self._output is not None:
            self._output.abort()
