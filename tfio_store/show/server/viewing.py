"""What a server shows: a source, its samples, and what these tell."""

from __future__ import annotations

from typing import Any

from tfio_store.dataset.source import Source, is_one, names_of
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.show.facts import facts_of
from tfio_store.show.kept import Opened, source_name
from tfio_store.show.sample import take_sample
from tfio_store.show.server.answers import Answers
from tfio_store.show.server.opening import Opening
from tfio_store.show.server.samples import Key, Looked, Samples
from tfio_store.write.progress import OnProgress

__all__ = ["answers_of"]


def answers_of(
    source: Source,
    *,
    blocks: int,
    seed: int = 0,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    **how: Any,
) -> Answers:
    """What a server answers of a source. Nothing is read before `Answers.begin`. ``how`` is the
    rest of what `Opening` takes."""
    if not is_one(source):
        source = names_of(source)
    opening = Opening(source, max_record_bytes=max_record_bytes, **how)

    def look(opened: Opened, key: Key, on_progress: OnProgress) -> Looked:
        sample = take_sample(
            opened,
            blocks=key.blocks,
            seed=key.seed,
            max_record_bytes=max_record_bytes,
            on_progress=on_progress,
        )
        return Looked(sample, facts_of(sample))

    return Answers(Samples(opening.open, look), source_name(source), Key(seed, blocks))
