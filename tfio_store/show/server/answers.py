"""What the server answers, as plain values. It knows nothing of HTTP; it may wait for a store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tfio_store.errors import DataLossError
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.show.features import shown_name
from tfio_store.show.server.content import Content, Form
from tfio_store.show.server.details import MediaUrl, detail, line
from tfio_store.show.server.faults import in_words
from tfio_store.show.server.filters import Wanted, matches
from tfio_store.show.server.pages import Paged, Pager
from tfio_store.show.server.query import RefusedError
from tfio_store.show.server.samples import Key, Looked, Samples

__all__ = ["MOST_LINES", "Answers", "Media"]

Json = dict[str, Any]

MOST_LINES = 100
"""Records on one page."""

_MOST_FOUND = 1000
"""Rows that a filter tells of."""


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a sound."""

    content: bytes
    media_type: str


class Answers:
    """To the requests of a page that shows one source. ``first`` is the sample it begins with."""

    def __init__(self, samples: Samples, name: str, first: Key) -> None:
        self._samples = samples
        self._name = name
        self.first = first

    def begin(self) -> None:
        """Open the source and take the first sample, in the background."""
        self._samples.start(self.first)

    # What the source is, and what a sample tells

    def facts(self, key: Key) -> Json:
        """How far the sample is, and what it tells once it is there. Waits for nothing."""
        told = self._source() | {"seed": key.seed, "blocks": key.blocks}
        looking = self._samples.of(key)
        if not looking.result.done():
            return told | {"state": "working", "records": looking.records, "nbytes": looking.nbytes}
        fault = looking.result.exception()
        if fault is not None:
            self._samples.forget(looking)
            return told | {"state": "failed", "error": in_words(fault)}
        return told | {"state": "ready", "facts": _facts(looking.result.result(), key)}

    def _source(self) -> Json:
        told: Json = {"source": self._name, "of_records": None, "by_number": False, "why": ""}
        shown = self._samples.shown
        if not shown.done() or shown.exception() is not None:
            return told
        found = shown.result()
        return told | {
            "of_records": found.opened.dataset.num_records,
            "by_number": found.pager is not None,
            "why": found.why,
        }

    # Records by their numbers

    def records(self, start: int, count: int) -> Json:
        """A page of records in the order of the source."""
        pager = self._pager()
        if start and start >= len(pager):
            raise RefusedError(f"There are {len(pager):,} records.", 404)
        lines = [self._paged_line(paged) for paged in pager.page(start, count)]
        return {"start": start, "of": len(pager), "lines": lines}

    def record(self, number: int, first: int) -> Json:
        """All that one record holds, from feature ``first`` on."""
        content = self._content(self._record(number))
        told = detail(content, first, _media_urls(f"record/{number}", ""))
        return told | {"number": number, "of_records": len(self._pager())}

    def record_media(self, number: int, feature: int, value: int, form: Form) -> Media:
        """An image or a sound of a record."""
        return self._media(self._record(number), feature, value, form)

    # Records of a sample, by their rows

    def rows(self, key: Key, start: int, count: int) -> Json:
        """A page of the sample's records."""
        looked = self._looked(key)
        rows = range(len(looked.sample.places))[start : start + count]
        return self._lines(looked, key, rows) | {"start": start}

    def some_rows(self, key: Key, rows: Sequence[int]) -> Json:
        """These records of the sample."""
        looked = self._looked(key)
        for row in rows:
            _check_row(looked, row)
        return self._lines(looked, key, rows)

    def _lines(self, looked: Looked, key: Key, rows: Iterable[int]) -> Json:
        places, lines = looked.sample.places, []
        for row in rows:
            place = dataclasses.asdict(places[row])
            lines.append(place | self._sampled_line(looked, row, _query(key)))
        return {"of": len(places), "lines": lines}

    def _sampled_line(self, looked: Looked, row: int, query: str) -> Json:
        try:
            record = looked.sample.record(row)
        except (DataLossError, LookupError) as error:
            return {"nbytes": None, "fault": in_words(error), "cells": [], "more": 0}
        return line(self._content(record), _media_urls(f"row/{row}", query, small=True))

    def row(self, key: Key, row: int, first: int) -> Json:
        """All that one record of the sample holds."""
        looked = self._looked(key)
        _check_row(looked, row)
        places = looked.sample.places
        content = self._content(looked.sample.record(row))
        told = detail(content, first, _media_urls(f"row/{row}", _query(key)))
        return told | dataclasses.asdict(places[row]) | {"of_rows": len(places)}

    def row_media(self, key: Key, row: int, feature: int, value: int, form: Form) -> Media:
        """An image or a sound of a record of the sample."""
        looked = self._looked(key)
        _check_row(looked, row)
        return self._media(looked.sample.record(row), feature, value, form)

    def item_media(self, key: Key, item: int) -> Media:
        """An image or a sound that the sample's facts show, perhaps smaller than it is."""
        items = self._looked(key).facts.items
        if item >= len(items) or not items[item].data:
            raise RefusedError("There is no such image or sound.", 404)
        return Media(items[item].data, items[item].media_type)

    def found(self, key: Key, feature: int, op: str, value: str) -> Json:
        """The rows of the sample whose feature (by its place among the facts') is as asked."""
        looked = self._looked(key)
        features = looked.facts.features
        if feature >= len(features):
            raise RefusedError(f"There are {len(features)} features.", 404)
        try:
            name = features[feature].name
            wanted = Wanted(op, value, self._said(name))
            rows, of = matches(looked.sample.held(), name, wanted)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        return {"rows": rows[:_MOST_FOUND], "found": len(rows), "of": of}

    # What they are made of

    def _schema(self) -> Schema | None:
        return self._samples.shown.result().opened.schema

    def _said(self, name: str) -> Feature | None:
        """What the schema says of a feature, by its name as it is shown."""
        schema = self._schema() or Schema({})
        return next((schema[each] for each in schema if shown_name(each) == name), None)

    def _content(self, record: bytes) -> Content:
        return Content(record, self._schema())

    def _paged_line(self, paged: Paged) -> Json:
        told: Json = {"number": paged.number, "nbytes": paged.nbytes, "cells": [], "more": 0}
        if paged.fault is not None:
            return told | {"fault": in_words(paged.fault)}
        if paged.record is None:
            return told | {"note": "Not read yet: the records of this page are large."}
        url = _media_urls(f"record/{paged.number}", "", small=True)
        return told | line(self._content(paged.record), url)

    def _media(self, record: bytes, feature: int, value: int, form: Form) -> Media:
        features = self._content(record).features
        found = features[feature].media(value, form) if feature < len(features) else None
        if found is None:
            raise RefusedError("This value is no image or sound that may be shown.", 404)
        return Media(*found)

    def _pager(self) -> Pager:
        shown = self._samples.shown
        if not shown.done():
            raise RefusedError("The source is still being opened.", 503)
        pager = shown.result().pager
        if pager is None:
            raise RefusedError(shown.result().why, 404)
        return pager

    def _record(self, number: int) -> bytes:
        try:
            return self._pager().record(number)
        except IndexError as error:
            raise RefusedError(f"There is no {error}.", 404) from None

    def _looked(self, key: Key) -> Looked:
        found = self._samples.of(key).result
        if not found.done():
            raise RefusedError("The sample is still being taken.", 503)
        return found.result()


def _check_row(looked: Looked, row: int) -> None:
    if row >= len(looked.sample.places):
        raise RefusedError(f"There is no row {row} of {len(looked.sample.places):,}.", 404)


def _facts(looked: Looked, key: Key) -> Json:
    """Items have URLs in place of their bytes."""
    items = looked.facts.items
    told = dataclasses.replace(
        looked.facts, items=tuple(dataclasses.replace(item, data=b"") for item in items)
    ).to_json()
    for i, item in enumerate(items):
        told["items"][i]["url"] = f"/media/item/{i}{_query(key)}" if item.data else None
    return told


def _media_urls(path: str, query: str, *, small: bool = False) -> MediaUrl:
    if small:
        query = f"{query}&small=1" if query else "?small=1"
    return lambda feature, value: f"/media/{path}/{feature}/{value}{query}"


def _query(key: Key) -> str:
    return f"?seed={key.seed}&blocks={key.blocks}"
