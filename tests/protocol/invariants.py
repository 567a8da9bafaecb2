"""What must be so at every moment, and at the end: the promises of the design, as code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from tests.protocol.actor import Direct, Moment
from tests.protocol.actors import (
    GLOBBED,
    URL,
    Clean,
    Copy,
    Glob,
    Job,
    Night,
    Program,
    Read,
    Write,
    decoded,
)
from tests.protocol.requests import CHANGES, Fate
from tests.protocol.state import Records, State
from tests.protocol.world import DAY, FOLDER, World
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.shard_page import PageRef
from tfio_store.errors import UncertainCommitError
from tfio_store.maintain.clean import clean
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import RecordDecoder, crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

MANIFEST = f"{FOLDER}/_train.manifest.json"

_decoded: dict[tuple[int, ...], Records] = {}
"""Records of a dataset by the digests of its objects."""

_named: dict[int, tuple[str, ...]] = {}
"""What a manifest names, by its digest. The objects of an index are never written again."""


class Violation(AssertionError):
    """A promise is broken."""


@dataclass(frozen=True)
class Objects:
    """The world's folder, for an index."""

    world: World

    def begin_range(self, name: str, start: int, stop: int) -> Future[BytesLike]:
        future: Future[BytesLike] = Future()
        try:
            future.set_result(self.world.read(f"{FOLDER}/{name}", start, stop, None)[0])
        except FileNotFoundError as fault:
            future.set_exception(fault)
        return future

    def url(self, name: str) -> str:
        return name

    def pages_now(self) -> tuple[PageRef, ...]:
        return ()


@cache
def generation_of(manifest: bytes) -> str | None:
    return DatasetManifest.from_bytes(manifest).generation


def parsed(world: World, manifest: bytes) -> DatasetManifest:
    return DatasetManifest.from_bytes(manifest, folder=Objects(world))


def named(world: World) -> tuple[str, ...]:
    """The paths of the objects that the manifest names; none without one."""
    found = world.objects.get(MANIFEST)
    if found is None:
        return ()
    if found.digest not in _named:
        try:
            names = parsed(world, found.data).names()
        except FileNotFoundError as missing:
            raise Violation("the manifest names an index that is not there") from missing
        _named[found.digest] = tuple(f"{FOLDER}/{name}" for name in sorted(names))
    return _named[found.digest]


def dataset(world: World) -> Records | None:
    """Every record, sorted; None when there is no manifest. Violation if it is not whole."""
    found = world.objects.get(MANIFEST)
    if found is None:
        return None
    paths = named(world)
    for path in paths:
        if path not in world.objects:
            raise Violation(f"the manifest names {path}, which is not there")
    key = (found.digest, *(world.objects[path].digest for path in paths))
    if key not in _decoded:
        _decoded[key] = decode(world, parsed(world, found.data))
    return _decoded[key]


def decode(world: World, manifest: DatasetManifest) -> Records:
    records: list[bytes] = []
    for shard in manifest.shards:
        data = world.objects[f"{FOLDER}/{shard.name}"].data
        if crc32c(data) != shard.crc32c or len(data) != shard.nbytes:
            raise Violation(f"{shard.name} holds other bytes than the manifest says")
        decoder = RecordDecoder(path=shard.name)
        records += map(bytes, decoder.feed(data))
        decoder.finish()
    return tuple(sorted(records))


def globbed(world: World) -> Records:
    """The records of all that a pattern finds, sorted."""
    paths = [path for path in sorted(world.objects) if path.startswith(f"{FOLDER}/{GLOBBED}")]
    stored = [(world.objects[path], path) for path in paths]
    return tuple(sorted(record for each, path in stored for record in decoded(each.data, path)))


def is_part(some: Records, whole: Records | None) -> bool:
    return not Counter(some) - Counter(whole or ())


@dataclass(frozen=True)
class Promises:
    """What a scenario's actors may do, and must have done."""

    programs: Mapping[str, Program]
    foreign: Mapping[str, int]
    """The digests of objects that are none of the dataset's."""
    alone: bool = False
    """Whether patterns find nothing but committed shards: no file of another program, and no first
    writer, whose shards come one by one."""
    _clean: set[tuple[int, tuple[str, ...], frozenset[str]]] = field(default_factory=set)
    """Ends that `clean` was seen to leave as they should be."""

    def moved(self, state: State, choice: str) -> State:
        """What follows, looked at."""
        name, request, _ = state.asked(choice)
        found = state.after(choice)
        if choice.startswith("~") and self._is_stray(state, found, name, request.path):
            found = replace(found, strays=found.strays | {request.path})
        if self._watches(name) and name not in found.since:
            found = replace(found, since={**found.since, name: len(found.versions) - 1})
        if request.kind not in CHANGES or found.world is state.world:
            return found
        return self._look(found, name, request.path)

    def _is_stray(self, before: State, now: State, writer: str, path: str) -> bool:
        """Whether a first writer's doubled shard has come back behind its end. Its claim is gone,
        and nobody can tell the shard from a stranger's file."""
        came = path in now.world.objects and path not in before.world.objects
        doubled = (writer, Fate.TWICE) in now.met and writer not in now.landed
        is_shard = path.startswith(f"{FOLDER}/{GLOBBED}")
        return came and doubled and is_shard and now.actors[writer].ended

    def _watches(self, name: str) -> bool:
        return isinstance(self.programs[name], Read | Glob)

    def _look(self, state: State, who: str, path: str) -> State:
        if path in self.foreign:
            found = state.world.objects.get(path)
            if found is None or found.digest != self.foreign[path]:
                raise Violation(f"{who} changed or deleted {path}, which is not its own")
        now, before = dataset(state.world), state.versions[-1]
        if path == MANIFEST and now != before:
            state = self._changed(state, who, now)
        if self.alone and path.startswith((MANIFEST, f"{FOLDER}/{GLOBBED}")):
            there = globbed(state.world)
            if not any(is_part(there, version) for version in state.versions):
                raise Violation(f"{who} lets a pattern find {there}, which never was the dataset")
        return state

    def _changed(self, state: State, who: str, now: Records | None) -> State:
        if now is None:
            raise Violation(f"{who} deleted the manifest")
        return self._landed(state, who, now)

    def _landed(self, state: State, who: str, now: Records) -> State:
        before, writer = state.versions[-1], self._author(state)
        program = self.programs.get(writer)
        if not isinstance(program, Write | Job):
            raise Violation(f"{who} changed the dataset")
        if writer in state.landed:
            raise Violation(f"{writer} landed twice")
        if now != after(program, writer, before):
            raise Violation(f"{writer} ({program.if_exists}) made {now} of {before}")
        return replace(state, versions=(*state.versions, now), landed=(*state.landed, writer))

    def _author(self, state: State) -> str:
        """Whose manifest it is, whoever has put it: `clean` may finish what a writer began."""
        generation = generation_of(state.world.objects[MANIFEST].data)
        roles = (moment.role for moment in state.actors.values())
        return next((role.name for role in roles if role.draws(generation or "")), "")

    def check_end(self, state: State) -> None:
        """What the actors say of themselves, against what has happened; and what `clean` leaves."""
        self._check_reports(state)
        if self.alone and not state.met:
            self._check_globbed(state.world)
        cleaned = self._cleaned(state)
        if cleaned.landed != state.landed:  # it has finished what a writer had decided
            self._check_reports(cleaned)

    def _check_reports(self, state: State) -> None:
        for name, program in self.programs.items():
            moment = state.actors[name]
            if name not in state.dead and moment.ended:
                Verdict(self, state, name, program, moment).check()

    def _cleaned(self, state: State) -> State:
        """Long after everything has ended: `clean` leaves the dataset, what others own, no more."""
        key = state.world.fingerprint(), state.landed, state.strays
        if key in self._clean:
            return state
        world = state.world.copy()
        world.clock += 10 * DAY
        Direct(world, 0x4C, partial(clean, URL)).run()
        # An upload under a plain name may be another program's, unless somebody says that there
        # is none. And what `clean` has published has left its hidden names for a while.
        world.clock += DAY
        Direct(world, 0x4D, partial(clean, URL, older_than=0)).run()
        state = replace(state, world=world)
        for path in (*self.foreign, MANIFEST):
            state = self._look(state, "clean", path)
        now = dataset(world)
        kept = {*self.foreign, *state.strays, *named(world)}
        kept |= set() if now is None else {MANIFEST}
        if left := world.objects.keys() - kept:
            raise Violation(f"clean left {', '.join(sorted(left))}")
        if world.uploads:
            raise Violation(f"clean left the uploads {world.uploads}")
        if not any("train-" in path for path in (*self.foreign, *state.strays)):
            self._check_globbed(world)
        if now is not None:
            found = Direct(world, 0x4E, lambda: tuple(sorted(RecordReader(URL)))).run()
            if found != now:
                raise Violation(f"a reader finds {found} where {now} was committed")
        if state.landed == key[1]:
            self._clean.add(key)
        return state

    def _check_globbed(self, world: World) -> None:
        """A pattern finds the dataset, and nothing else; or nothing, where nobody wanted that."""
        manifest = world.objects.get(MANIFEST)
        hidden = manifest is not None and not any("/train-" in name for name in named(world))
        if hidden and manifest is not None:
            hidden = parsed(world, manifest.data).publish is None
        wanted = () if hidden else dataset(world) or ()
        if globbed(world) != wanted:
            raise Violation(f"a pattern finds {globbed(world)} where {wanted} was committed")


def group(name: str, programs: Mapping[str, Program]) -> str:
    """The writer whose records an actor writes: its own, or those of the job that it copies."""
    program = programs.get(name)
    return program.job if isinstance(program, Copy) else name


def after(program: Write | Job, name: str, before: Records | None) -> Records | None:
    """What the dataset must be after this writer has committed."""
    own = program.records(name)
    if program.if_exists == "append" and before is not None:
        return tuple(sorted((*before, *own)))
    return None if program.if_exists == "error" and before is not None else tuple(sorted(own))


@dataclass(frozen=True)
class Verdict:
    """One actor's end."""

    promised: Promises
    state: State
    name: str
    program: Program
    moment: Moment

    def check(self) -> None:
        if isinstance(self.program, Read):
            self._reader()
        elif isinstance(self.program, Glob):
            self._globber()
        elif isinstance(self.program, Clean | Night):
            self._excused(self._met())
        else:
            self._writer(self.program)

    def _reader(self) -> None:
        versions, moment = self.state.versions, self.moment
        if moment.error is None:
            read = tuple(sorted(moment.result))
            if read not in versions[self.state.since[self.name] :]:
                raise Violation(f"{self.name} read {read}, which never was the dataset")
            return
        absent = isinstance(moment.error, FileNotFoundError) and versions[0] is None
        self._excused(self._met() or absent or self._some(Night))

    def _globber(self) -> None:
        """It has read a part of one generation, or a file had left its name before it came."""
        versions, moment = self.state.versions, self.moment
        if moment.error is not None:
            self._excused(isinstance(moment.error, FileNotFoundError) or self._met())
        elif self.promised.alone and not any(is_part(moment.result, one) for one in versions):
            raise Violation(f"{self.name} found {moment.result}, which never was the dataset")

    def _writer(self, program: Write | Job | Copy) -> None:
        error = self.moment.error
        landed = group(self.name, self.promised.programs) in self.state.landed
        if error is None:
            if not landed and promises(program):
                raise Violation(f"{self.name} reported success, and did not land")
            return
        if isinstance(error, UncertainCommitError):
            # Another copy of the job may be at the same point, and nobody knows yet how that ends.
            self._excused(self.state.met or self._is_copied(program))
            return
        if landed and promises(program) and not (self._met() and self._others_may_know()):
            raise Violation(f"{self.name} reported failure ({told(error)}), and has landed")
        self._excused(self._met() or self._in_the_way(program))

    def _others_may_know(self) -> bool:
        """Whether another copy has reported the commit, or that nobody knows; or is not there any
        more to do so."""
        programs, state = self.promised.programs, self.state
        copies = (n for n in programs if group(n, programs) == group(self.name, programs))
        return any(
            name in state.dead
            or (state.actors[name].ended and _may_have_landed(state.actors[name]))
            for name in copies
            if name != self.name and promises(programs[name])
        )

    def _in_the_way(self, program: Write | Job | Copy) -> bool:
        """Whether somebody else may rightly have stopped this writer."""
        programs = self.promised.programs
        if isinstance(program, Copy) or self._is_copied(program):
            return True
        if self._some(Clean) or self._some(Night) or self.state.met:
            return True
        others = [p for name, p in programs.items() if name != self.name]
        if program.if_exists == "append":
            return any(isinstance(p, Write | Job) and p.if_exists != "append" for p in others)
        if program.if_exists == "error" and self.state.versions[0] is not None:
            return True
        return any(isinstance(p, Write | Job) for p in others)

    def _is_copied(self, program: Write | Job | Copy) -> bool:
        """Whether several processes commit or abort the same job."""
        others = self.promised.programs.values()
        return isinstance(program, Copy) or any(
            isinstance(p, Copy) and p.job == self.name for p in others
        )

    def _met(self) -> bool:
        return any(name == self.name for name, _ in self.state.met)

    def _some(self, kind: type[Program]) -> bool:
        return any(isinstance(program, kind) for program in self.promised.programs.values())

    def _excused(self, excuse: object) -> None:
        error = self.moment.error
        if error is None:
            return
        if not isinstance(error, OSError):
            raise Violation(f"{self.name} met {told(error)}, which is no failure of a store")
        if not excuse:
            raise Violation(f"{self.name} failed for no reason: {told(error)}")


def promises(program: Program) -> bool:
    """Whether success means that the records are there, and failure that they are not."""
    if isinstance(program, Copy):
        return program.does == "commit"
    return not isinstance(program, Job) or program.commits


def _may_have_landed(moment: Moment) -> bool:
    return moment.error is None or isinstance(moment.error, UncertainCommitError)


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
