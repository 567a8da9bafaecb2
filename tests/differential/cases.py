"""Which kinds of cases there are, how often each comes, and how one is run."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from tests.differential import (
    chains,
    damage,
    pipelines,
    readers,
    schemas,
    sequences,
    tfdata,
)
from tests.differential.draw import Draw
from tests.differential.sources import World

Check = Callable[[Draw, World], None]

KINDS: dict[str, tuple[Check, float]] = {
    "reader": (readers.check_reader, 42),
    "file_object": (readers.check_file_object, 3),
    "source": (readers.check_source, 17),
    "damage": (damage.check_damage, 15),
    "order": (tfdata.check_order, 6),
    "shards": (tfdata.check_shards, 3),
    "shuffle": (tfdata.check_shuffle, 3),
    "checkpoint": (tfdata.check_checkpoint, 3),
    "schema": (schemas.check_schema, 2.5),
    "chains": (chains.check_chains, 3),
    "sequences": (sequences.check_sequences, 3),
    "tensorflow": (pipelines.check_against_tensorflow, 2),
    "list_files": (pipelines.check_list_files, 0.7),
    "auto_shard": (pipelines.check_auto_shard, 0.5),
    "service": (pipelines.check_service, 0.3),
    "mirrored": (pipelines.check_mirrored, 0.2),
}


def run_case(seed: int, world: World, only: str | None = None) -> tuple[str, str | None]:
    """The case's kind, which is ``only`` this one if given; and what was different, if anything
    was."""
    draw = Draw(seed)
    names = list(KINDS)
    kind = draw.random.choices(names, [share for _, share in KINDS.values()])[0]
    kind = only or kind
    try:
        KINDS[kind][0](draw, world)
    except Exception:
        return kind, f"{kind}: {draw}\n{traceback.format_exc()}"
    return kind, None
