"""Facts that fit a page: what there is too much of is left out, and told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from tfio_store.show.model import Facts, FeatureFacts, Item

__all__ = ["MOST_BYTES", "fitted"]

Value = TypeVar("Value")

MOST_BYTES = 8_000_000
"""Of a page, so that it stays below 10 MB with its scripts."""

_ROOM = {"findings": 0.05, "shards": 0.1, "sizes": 0.05, "damage": 0.05, "schema": 0.05}
"""The part of a page that a list may take. Items get what is left."""

_FEATURES_ROOM = 0.5


def fitted(facts: Facts, most: int = MOST_BYTES) -> Facts:
    """``facts`` whose JSON text is below ``most`` bytes, or the same if it is."""
    plain = facts.to_json()
    if _size(plain) <= most:
        return facts
    left_out = list(facts.scope.left_out)
    kept: dict[str, Any] = {"schema": facts.header.schema}
    used = 4000 + _size(plain["places"])
    for name, part in _ROOM.items():
        values = facts.header.schema if name == "schema" else getattr(facts, name)
        sizes = list(map(_size, plain["header"]["schema"] if name == "schema" else plain[name]))
        chosen = _while_they_fit(range(len(values)), sizes, int(most * part))
        used += sum(sizes[i] for i in chosen)
        kept[name] = tuple(values[i] for i in chosen)
        if len(chosen) < len(values):
            left_out.append(f"{name}: {len(values) - len(chosen):,} of {len(values):,} do not fit")
    features, taken = _features(facts.features, int(most * _FEATURES_ROOM), left_out)
    sizes = list(map(_size, plain["items"]))
    items = _while_they_fit(_in_turn(facts.items), sizes, most - used - taken)
    if len(items) < len(sizes):
        gone = len(sizes) - len(items)
        left_out.append(f"{gone:,} of {len(sizes):,} images, texts and sounds do not fit")
    return replace(
        facts,
        header=replace(facts.header, schema=kept.pop("schema")),
        **kept,
        features=features,
        scope=replace(facts.scope, left_out=tuple(left_out)),
        items=tuple(facts.items[i] for i in sorted(items)),
    )


def _features(
    features: Sequence[FeatureFacts], room: int, left_out: list[str]
) -> tuple[tuple[FeatureFacts, ...], int]:
    """Those that fit, and their size. The last ones lose their charts before any is left out."""
    bare = [replace(one, histogram=None, lengths=None, top=()) for one in features]
    sizes = [_size(asdict(one)) for one in bare]
    kept = _while_they_fit(range(len(bare)), sizes, room)
    taken = sum(sizes[i] for i in kept)
    more = [_size(asdict(features[i])) - sizes[i] for i in kept]
    whole = {kept[k] for k in _while_they_fit(range(len(kept)), more, room - taken)}
    taken += sum(more[k] for k, i in enumerate(kept) if i in whole)
    if len(kept) < len(bare):
        left_out.append(f"features: {len(bare) - len(kept):,} of {len(bare):,} do not fit")
    if len(whole) < len(kept):
        left_out.append(f"charts of {len(kept) - len(whole):,} of {len(bare):,} features")
    return tuple(features[i] if i in whole else bare[i] for i in kept), taken


def _size(value: Any) -> int:
    """Bytes of its JSON text in a page, where some characters are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    escaped = sum(map(text.count, "<>&"))
    return len(text.encode("utf-8", "replace")) + 5 * escaped + 2


def _while_they_fit(order: Iterable[int], sizes: Sequence[int], room: int) -> list[int]:
    """Those of ``order`` that fit into ``room`` together; a large one stays out alone."""
    kept = []
    for i in order:
        if sizes[i] <= room:
            room -= sizes[i]
            kept.append(i)
    return kept


def _in_turn(items: Sequence[Item]) -> list[int]:
    """The first item of each feature, then the second ones, and so on."""
    turns: dict[tuple[str, str], int] = {}
    order = []
    for i, item in enumerate(items):
        turn = turns.get((item.kind, item.feature), 0)
        turns[item.kind, item.feature] = turn + 1
        order.append((turn, i))
    return [i for _, i in sorted(order)]
