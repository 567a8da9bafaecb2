"""Records as JSON for a page: a line of a table, or all that one of them holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfio_store.show.media import media_type
from tfio_store.show.server.content import Content, Held, Values
from tfio_store.show.server.excerpts import excerpt, numbers, short

__all__ = ["FEATURES_AT_ONCE", "detail", "line", "media"]

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
_MAGIC = 64
"""First bytes, which tell what a value is."""


def line(record: bytes, media_url: MediaUrl) -> Json:
    """A record in one line: of its first features the names and short values, and the URLs of those
    that are images or sounds."""
    content = Content(record)
    wanted = range(min(_CELLS, len(content.features)))
    cells: list[list[str]] = []
    for i, values in zip(wanted, content.values(wanted), strict=True):
        name, found = content.features[i].name, _media_at(values, 0)
        if found is not None:
            cells.append([name, found, media_url(i, 0)])
        else:
            cells.append([name, short(values, _CELL_LENGTH)])
    more = len(content.features) - len(wanted)
    return {"nbytes": content.nbytes, "note": content.note, "cells": cells, "more": more}


def detail(record: bytes, first: int, media_url: MediaUrl) -> Json:
    """All that a record holds: features from ``first`` on, each with the beginning of its
    values."""
    content = Content(record)
    wanted = range(first, min(first + FEATURES_AT_ONCE, len(content.features)))
    found = zip(wanted, content.values(wanted), strict=True)
    features = [_feature(i, content.features[i], values, media_url) for i, values in found]
    return {
        "nbytes": content.nbytes,
        "note": content.note,
        "features": features,
        "first": first,
        "of": len(content.features),
    }


def media(record: bytes, feature: int, value: int) -> tuple[memoryview, str] | None:
    """An image or a sound of a record, and its media type; None if that is no such thing."""
    content = Content(record)
    if not 0 <= feature < len(content.features):
        return None
    (values,) = content.values([feature])
    found = _media_at(values, value)
    return None if found is None else (values.view(value), found)


def _feature(index: int, held: Held, values: Values, media_url: MediaUrl) -> Json:
    told: Json = {"name": held.name, "dtype": held.dtype, "count": len(values)}
    if values.steps is not None:
        told["steps"] = values.steps
    if values.fault:
        return told | {"fault": values.fault, "values": []}
    if values.numbers is not None:
        return told | {"values": numbers(values.numbers[:_NUMBERS])}
    shown = range(min(_STRINGS, len(values)))
    return told | {"values": [_string(index, i, values, media_url) for i in shown]}


def _string(feature: int, index: int, values: Values, media_url: MediaUrl) -> Json:
    found = _media_at(values, index)
    if found is None:
        return excerpt(values.view(index), _OTHER_TEXT if index else _FIRST_TEXT)
    nbytes = len(values.view(index))
    return {"nbytes": nbytes, "media_type": found, "url": media_url(feature, index)}


def _media_at(values: Values, index: int) -> str | None:
    """The media type of a byte string, if it is an image or a sound."""
    if values.numbers is not None or not 0 <= index < len(values):
        return None
    return media_type(bytes(values.view(index)[:_MAGIC]))
