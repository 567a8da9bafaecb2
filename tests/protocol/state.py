"""What a store holds, where each actor stands, and all that may happen next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.protocol.actor import Moment
from tests.protocol.requests import APPLIED, DEFERRED, FATAL, FAULTS, Answer, Fate, Fault, Request
from tests.protocol.world import World

Records = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A value: what happens makes another one."""

    world: World
    actors: dict[str, Moment]
    versions: tuple[Records | None, ...]
    """The records of the dataset, as one manifest after the other landed."""
    landed: tuple[str, ...] = ()
    """The writers that made them."""
    late: tuple[tuple[str, Request], ...] = ()
    """Requests that are under way, while nobody waits for them."""
    dead: frozenset[str] = frozenset()
    met: tuple[tuple[str, Fate], ...] = ()
    """The faults so far, and whom they befell."""
    strays: frozenset[str] = frozenset()
    """Shards under plain names that a doubled request brought when their writer had given up."""
    since: dict[str, int] = field(default_factory=dict)
    """How many versions there were when an actor made its first request."""

    def fingerprint(self) -> int:
        """Equal for states from which everything goes on in the same ways."""
        actors = tuple(map(id, self.actors.values()))
        late = frozenset((n, r.kind, r.path, hash(r.arguments)) for n, r in self.late)
        told = len(self.met), frozenset(name for name, _ in self.met), tuple(self.since.values())
        ended = self.landed, self.dead, self.strays
        return hash((self.world.fingerprint(), actors, self.versions, late, told, ended))

    def choices(self, faults: int) -> list[str]:
        """All that may happen next: ``a`` goes on, ``a:lost`` does so with a fault, ``~0`` is the
        first of the late requests. With no more than so many ``faults`` in all."""
        found = []
        for name, moment in self.actors.items():
            request = moment.request
            if request is None or name in self.dead or not self._ready(request):
                continue
            found.append(name)
            if len(self.met) < faults:
                found += [f"{name}:{fate.value}" for fate in request.fates()]
        return found + [f"~{number}" for number in range(len(self.late))]

    def _ready(self, request: Request) -> bool:
        # A request that is a day late is none any more.
        return request.ready(self.world) and not (request.kind == "sleep" and self.late)

    def asked(self, choice: str) -> tuple[str, Request, Fate]:
        """Whose request, which, and what becomes of it."""
        if choice.startswith("~"):
            return *self.late[int(choice[1:])], Fate.DONE
        name, _, fate = choice.partition(":")
        request = self.actors[name].request
        assert request is not None
        return name, request, Fate(fate)

    def after(self, choice: str) -> State:
        """What is then; ``versions`` and ``landed`` are left to who watches."""
        name, request, fate = self.asked(choice)
        world = self.world.copy()
        if choice.startswith("~"):
            request.answer(world)
            at = int(choice[1:])
            return replace(self, world=world, late=(*self.late[:at], *self.late[at + 1 :]))
        answer = Answer(None, None, world.clock)
        if fate in APPLIED:
            answer = request.answer(world)
        if fate is Fate.RETRIED:
            answer = request.answer(world, attempts=2)
        if fate in FAULTS:
            answer = Answer(None, Fault(*FAULTS[fate], request.path), world.clock)
        actors = dict(self.actors)
        if fate not in FATAL:
            actors[name] = actors[name].after(answer)
        return replace(
            self,
            world=world,
            actors=actors,
            late=(*self.late, (name, request)) if fate in DEFERRED else self.late,
            dead=self.dead | {name} if fate in FATAL else self.dead,
            met=(*self.met, (name, fate)) if fate is not Fate.DONE else self.met,
        )

    def line(self, choice: str) -> str:
        """A step, for people."""
        name, request, fate = self.asked(choice)
        late = "late, " if choice.startswith("~") else ""
        moment = self.actors[name]
        told = f"{choice:12} {late}{name}: {request}"
        if moment.request is None and not late:
            told += " (ended)"
        return told + (f" -- {fate.name}" if fate is not Fate.DONE else "")
