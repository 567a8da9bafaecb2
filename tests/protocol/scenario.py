"""Who acts together, in what folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from tests.protocol.actor import Direct, Moment, Role
from tests.protocol.actors import BUDGET, Program
from tests.protocol.invariants import MANIFEST, Promises, dataset, named
from tests.protocol.state import State
from tests.protocol.world import FOLDER, World
from tfio_store.write.sharded_writer import ShardedWriter


@dataclass
class Scenario:
    """Actors by name, and what is in the folder before they begin.

    ``exists``: whether there is a dataset. ``alias``: whether a copy of its manifest lies beside
    it, under another name. ``plain``: whether a file of another program has a shard's plain name.
    """

    name: str
    actors: Mapping[str, Program]
    exists: bool = True
    alias: bool = False
    plain: bool = False
    staged: bool = False
    etags_count: bool = False

    @cached_property
    def folder(self) -> World:
        world = World(etags_count=self.etags_count)
        write(world, 0x01, "other", [b"other"])
        world.put(f"{FOLDER}/notes.txt", b"notes")
        if self.exists:
            write(world, 0x02, "train", [b"old0", b"old1"])
        if self.alias:
            world.put(f"{FOLDER}/_alias.manifest.json", world.objects[MANIFEST].data)
        if self.plain:
            world.put(f"{FOLDER}/train-00000-of-00007.tfrecord", b"another program's")
        world.clock += 7200
        return world

    @cached_property
    def foreign(self) -> dict[str, int]:
        """The digests of what no actor may touch."""
        world = self.folder
        own = set() if self.alias else {*named(world)}
        return {
            path: stored.digest
            for path, stored in world.objects.items()
            if path not in own and path != MANIFEST
        }

    @cached_property
    def promises(self) -> Promises:
        alone = self.exists and not self.alias and not self.plain
        return Promises(self.actors, self.foreign, alone)

    @cached_property
    def start(self) -> State:
        clock = self.folder.clock
        actors = {
            name: Moment(Role(name, number, partial(program.run, name), clock, self.staged))
            for number, (name, program) in enumerate(self.actors.items(), 3)
        }
        return State(self.folder, actors, (dataset(self.folder),))


def write(world: World, number: int, name: str, records: list[bytes]) -> None:
    def program() -> None:
        url = f"sim://{FOLDER}/{name}"
        with ShardedWriter(url, num_shards=1, memory_budget=BUDGET) as writer:
            writer.write_batch(records)

    Direct(world, number, program).run()
