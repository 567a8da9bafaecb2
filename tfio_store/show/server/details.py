"""Records as JSON for a page: a line of a table, or all that one of them holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfio_store.show.server.content import Content, Held
from tfio_store.show.server.excerpts import and_more, meanings, numbers, short, string

__all__ = ["FEATURES_AT_ONCE", "MediaUrl", "detail", "line"]

Json = dict[str, Any]
MediaUrl = Callable[[int, int], str]
"""Of a feature and a value, both by their places."""

FEATURES_AT_ONCE = 200
"""So many features of a record are told at once, from a place on."""

_CELLS = 8
_CELL_LENGTH = 60
_NUMBERS = 256
_STRINGS = 16
_FIRST_TEXT = 4000
"""Characters of a feature's first byte string; others have fewer."""
_OTHER_TEXT = 300


def line(content: Content, media_url: MediaUrl) -> Json:
    """A record in one line: of its first features the names and short values, and the URLs of those
    that are images or sounds to be shown."""
    cells = []
    for i, held in enumerate(content.features[:_CELLS]):
        found = held.media_type(0)
        if found is None:
            told = [short(held, _CELL_LENGTH)]
        elif why := held.refusal(0):
            told = [f"{found}, {len(held.view(0)):,} bytes, {why}{and_more(held)}"]
        else:
            told = [found, media_url(i, 0)]
        cells.append([held.name, *told])
    more = len(content.features) - len(cells)
    return {"nbytes": content.nbytes, "note": content.note, "cells": cells, "more": more}


def detail(content: Content, first: int, media_url: MediaUrl) -> Json:
    """All that a record holds: features from ``first`` on, each with the beginning of its
    values."""
    wanted = enumerate(content.features[first : first + FEATURES_AT_ONCE], first)
    return {
        "nbytes": content.nbytes,
        "note": content.note,
        "features": [_feature(i, held, media_url) for i, held in wanted],
        "first": first,
        "of": len(content.features),
    }


def _feature(index: int, held: Held, media_url: MediaUrl) -> Json:
    told: Json = {"name": held.name, "dtype": held.dtype, "count": held.count}
    if held.steps is not None:
        told["steps"] = held.steps
    if held.numbers is not None:
        told["values"] = numbers(held.numbers[:_NUMBERS])
        told["means"] = meanings(held, _NUMBERS)
        return told
    shown = range(min(_STRINGS, held.count))
    return told | {"values": [_string(index, i, held, media_url) for i in shown]}


def _string(feature: int, index: int, held: Held, media_url: MediaUrl) -> Json:
    found, value = held.media_type(index), held.view(index)
    if found is None:
        return string(value, _OTHER_TEXT if index else _FIRST_TEXT)
    url = media_url(feature, index)
    file = f"{url}{'&' if '?' in url else '?'}file=1"
    why = held.refusal(index)
    shown = {"why": why} if why else {"url": url}
    return {"nbytes": len(value), "media_type": found, "file": file, **shown}
