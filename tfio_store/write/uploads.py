"""All shards of one writer, from opening until they are visible or gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, as_completed
from functools import partial
from typing import TYPE_CHECKING

from tfio_store.write.pipeline import Pipeline
from tfio_store.write.pulse import Pulse
from tfio_store.write.shard_stream import ShardStream

if TYPE_CHECKING:
    from tfio_store.dataset.fingerprint import Fingerprint
    from tfio_store.dataset.folder import Folder
    from tfio_store.dataset.manifest import ShardInfo
    from tfio_store.records.compression import Compressor
    from tfio_store.storage import Output
    from tfio_store.storage.process import Owner
    from tfio_store.write.budget import Memory
    from tfio_store.write.held_claim import HeldClaim

__all__ = ["ShardUploads"]


class ShardUploads:
    """Opens the streams of a writer's shards, and ends, commits or aborts them together."""

    def __init__(
        self,
        folder: Folder,
        compressor: Compressor,
        memory: Memory,
        *,
        open_shards: int,
        if_absent: bool = True,
        verify: bool = False,
        on_failure: Callable[[], Callable[[BaseException], None] | None],
        claim: HeldClaim | None = None,
        record_positions: bool | None = False,
    ) -> None:
        self._folder = folder
        self._compressor = compressor
        self._memory = memory
        self._claim = claim
        self._pulse = None if claim is None else Pulse(claim.beat)
        self._record_positions = record_positions
        self._commit_options = {"if_absent": if_absent, "verify": verify}
        self._pipeline = Pipeline(
            budget=memory.queue_bytes, shards=open_shards, on_failure=on_failure
        )
        self._streams: dict[str, ShardStream] = {}
        self._landing: dict[str, Future[None]] = {}

    def open(self, name: str, output: Output | None = None) -> ShardStream:
        """A stream to a new object; its output, unless given, opens with the first block."""
        stream = ShardStream(
            name,
            self._pipeline,
            self._compressor,
            partial(self._open_output, name),
            output=output,
            block_bytes=self._memory.block_bytes,
            claim=self._claim,
            record_positions=self._record_positions,
        )
        self._streams[name] = stream
        return stream

    def _open_output(self, name: str) -> Output:
        path = self._folder.join(name)
        return self._folder.store.open_output(path, part_bytes=self._memory.part_bytes)

    def land(self, stream: ShardStream) -> None:
        """End one shard and begin to commit it: the object becomes visible, not the dataset."""
        stream.end()
        stream.announce()
        self._commit(stream)

    def forget(self) -> None:
        """Write none of the shards, to which no record came: nothing of them has begun."""
        self._streams.clear()

    def finish(self, landed: Callable[[], object] = lambda: None) -> list[ShardInfo]:
        """End and commit all shards, in the order of their opening; calls ``landed`` for each."""
        self._pipeline.check()
        late = [stream for name, stream in self._streams.items() if name not in self._landing]
        for end in [stream.end() for stream in late]:
            end.result()
        # The first shard becomes visible only after every byte of every shard has been taken.
        if self._claim is not None and late:
            self._claim.announce([stream.fingerprint() for stream in late])
        for stream in late:
            self._commit(stream)
        for future in as_completed(self._landing.values()):
            future.result()
            landed()
        return [stream.info() for stream in self._streams.values()]

    def _commit(self, stream: ShardStream) -> None:
        self._landing[stream.name] = stream.commit(self._folder, **self._commit_options)

    def drain(self) -> None:
        """Wait until the outputs have taken every block that was pushed."""
        self._pipeline.check()
        for future in [stream.drained() for stream in self._streams.values()]:
            future.result()

    def fail(self, failure: BaseException) -> None:
        """Let everything under way stop, and later calls raise this."""
        self._pipeline.fail(failure)

    def abort(self) -> list[Fingerprint]:
        """Drop every shard. Returns those that may be visible, to be deleted. Does nothing in a
        forked child, because everything here is its parent's.
        """
        if not self._pipeline.owner.is_here:
            return []
        self._pipeline.fail(ValueError("the writer was aborted"))
        _wait_quietly([stream.abort() for stream in self._streams.values()])
        self.close()
        landing = (self._streams[name] for name in self._landing)
        return [stream.fingerprint() for stream in landing if stream.may_be_visible]

    @property
    def owner(self) -> Owner:
        """The process that owns the threads, and everything that they write."""
        return self._pipeline.owner

    def close(self) -> None:
        """End the threads."""
        if self._pulse is not None:
            self._pulse.stop()
        self._pipeline.shut_down()


def _wait_quietly(futures: Iterable[Future[None]]) -> None:
    """Abort, and leave to `clean` what can't be aborted because the store is gone."""
    for future in futures:
        future.exception()
