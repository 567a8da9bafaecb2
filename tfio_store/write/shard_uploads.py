"""All shards of one writer, from opening until they are visible or gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, as_completed
from functools import partial
from typing import TYPE_CHECKING

from tfio_store.dataset.block_tables import ShardInfo
from tfio_store.dataset.manifest import Fingerprint
from tfio_store.write.appended import lists_of_numbers
from tfio_store.write.claim import Pulse
from tfio_store.write.pipeline import Pipeline, SerialQueue
from tfio_store.write.shard_stream import ShardStream

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder
    from tfio_store.example.feature import Feature
    from tfio_store.example.schema import Schema
    from tfio_store.records.compression import Compressor
    from tfio_store.storage import Output
    from tfio_store.storage.threads import Owner
    from tfio_store.write.claim import HeldClaim
    from tfio_store.write.pipeline import Memory


_GROUPS = 3
"""Groups of shards that land at a time."""

_TOGETHER = 64
_OF_THOSE_BEFORE = 8
"""At most so many shards land together, and at most this part of those that have landed."""


class ShardUploads:
    """Opens the streams of a writer's shards, and ends, commits or aborts them together. Without a
    ``claim``, which says whose the names are, an object of a shard's name is replaced."""

    def __init__(
        self,
        folder: Folder,
        compressor: Compressor,
        memory: Memory,
        *,
        open_shards: int,
        verify: bool = False,
        on_failure: Callable[[], Callable[[BaseException], None] | None],
        claim: HeldClaim | None = None,
        record_positions: bool | None = False,
        lists: Mapping[str, Feature] | None = None,
    ) -> None:
        self._folder = folder
        self._compressor = compressor
        self._memory = memory
        self._claim = claim
        self._pulse = None if claim is None else Pulse(claim.beat)
        self._record_positions = record_positions
        self._lists = dict(lists or {})
        self._verify = verify
        self._pipeline = Pipeline(
            budget=memory.queue_bytes, shards=open_shards, on_failure=on_failure
        )
        self._streams: dict[str, ShardStream] = {}
        self._ended: list[ShardStream] = []
        """Those that are to land together, and the memory that they may hold until then."""
        self._held = self._announced = 0
        self._announcing = SerialQueue(self._pipeline.io)
        self._groups: deque[Future[list[Future[None]]]] = deque()
        """The commits of those that land together, once they are announced."""
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
            record_positions=self._record_positions,
            lists=self._lists,
        )
        self._streams[name] = stream
        return stream

    def count(self, schema: Schema) -> None:
        """Count the values of this schema's lists of numbers. To be called before there is a
        record."""
        self._lists.update(lists_of_numbers(schema))

    def _open_output(self, name: str) -> Output:
        path = self._folder.join(name)
        return self._folder.store.open_output(path, part_bytes=self._memory.part_bytes)

    def land(self, stream: ShardStream) -> None:
        """End one shard, and soon commit it: the object becomes visible, not the dataset. With each
        change the claim is written anew, and it names all shards that may have appeared. So of many
        small shards several are announced together."""
        stream.end()
        self._ended.append(stream)
        self._held += min(stream.raw_nbytes, self._memory.part_bytes)
        many = min(self._announced // _OF_THOSE_BEFORE, _TOGETHER)
        if len(self._ended) >= many or self._held >= self._memory.part_bytes:
            self._land_ended()

    def _land_ended(self) -> None:
        while len(self._groups) >= _GROUPS:  # else there may be many open files
            for commit in self._groups.popleft().result():
                commit.result()
        ended, self._ended, self._held = self._ended, [], 0
        self._announced += len(ended)

        def land() -> list[Future[None]]:
            for stream in ended:
                assert stream.ended is not None
                stream.ended.result()
            if self._claim is not None:  # which notes what is about to appear
                self._claim.announce([stream.fingerprint() for stream in ended])
            return [self._commit(stream) for stream in ended]

        self._groups.append(self._announcing.submit(self._pipeline.step(land)))

    def forget(self) -> None:
        """Write none of the shards, to which no record came: nothing of them has begun."""
        self._streams.clear()

    def finish(self, landed: Callable[[], object] = lambda: None) -> list[ShardInfo]:
        """End and commit all shards, in the order of their opening; calls ``landed`` for each."""
        self._pipeline.check()
        late = [stream for stream in self._streams.values() if stream.ended is None]
        for end in [stream.end() for stream in late]:
            end.result()
        for stream in self._streams.values():
            stream.check_end()
        # The first shard becomes visible only after every byte of every shard has been taken.
        self._ended += late
        self._land_ended()
        for group in self._groups:
            group.result()
        for future in as_completed(self._landing.values()):
            future.result()
            landed()
        return [stream.info() for stream in self._streams.values()]

    def _commit(self, stream: ShardStream) -> Future[None]:
        claimed = self._claim is not None
        commit = partial(stream.commit, self._folder, if_absent=claimed, verify=self._verify)
        landing = self._landing[stream.name] = stream.then(commit)
        return landing

    def drain(self) -> None:
        """Wait until the outputs have taken every block that was pushed."""
        self._pipeline.check()
        for future in [stream.then(lambda: None) for stream in self._streams.values()]:
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
        self._announcing.submit(lambda: None).result()
        for future in [stream.abort() for stream in self._streams.values()]:
            future.exception()  # what can't be aborted because the store is gone is left to `clean`
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
