"""The requests that a page may make, and their answers.

A request names a record by its number, or a row of a sample, and a feature by its place: nothing in
it becomes a path or a URL. What it costs is bounded, and what waits for a store waits in a thread,
so that all others are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tfio_store.show.server.answers import MOST_LINES, Answers, Media
from tfio_store.show.server.assets import Asset, assets, page
from tfio_store.show.server.content import A_FILE, Form
from tfio_store.show.server.faults import in_words
from tfio_store.show.server.query import RefusedError, number, numbers, text
from tfio_store.show.server.samples import BusyError, Key

__all__ = ["app_of"]

T = TypeVar("T")
Answer = Callable[[Request], Awaitable[Response]]

_AT_ONCE = 4
"""Requests that read records at once. Each holds a few MiB of them."""

_MOST = 2**53
"""No number of a record is larger."""

_MOST_BLOCKS = 4096
_LINES = 20


def app_of(answers: Answers) -> Starlette:
    """The application. It trusts whoever reaches it: see `Gate`."""
    pages = _Pages(answers)
    routes = {
        "/": pages.page,
        "/static/{name:path}": pages.static,
        "/api/facts": pages.facts,
        "/api/records": pages.records,
        "/api/record/{number}": pages.record,
        "/api/rows": pages.rows,
        "/api/row/{row}": pages.row,
        "/api/filter": pages.filter,
        "/media/item/{item}": pages.item_media,
        "/media/record/{number}/{feature}/{value}": pages.record_media,
        "/media/row/{row}/{feature}/{value}": pages.row_media,
    }
    return Starlette(routes=[Route(path, _told(answer)) for path, answer in routes.items()])


def _told(answer: Answer) -> Answer:
    """What goes wrong becomes an answer in words; nothing reaches the server's log."""

    async def told(request: Request) -> Response:
        try:
            return await answer(request)
        except RefusedError as error:
            return _fault(str(error), error.status)
        except BusyError:
            return _fault("Samples are being taken already; ask again in a moment.", 503)
        except Exception as error:
            return _fault(in_words(error), 502 if isinstance(error, OSError) else 500)

    return told


def _fault(said: str, status: int) -> Response:
    return JSONResponse({"error": said}, status)


class _Pages:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def page(self, request: Request) -> Response:
        return _file(page())

    async def static(self, request: Request) -> Response:
        found = assets().get(request.path_params["name"])
        if found is None:
            raise RefusedError("There is no such file.", 404)
        return _file(found)

    async def facts(self, request: Request) -> Response:
        return JSONResponse(self._answers.facts(self._key(request)))

    async def records(self, request: Request) -> Response:
        start = number(request.query_params.get("start"), "start", most=_MOST)
        return await self._read(self._answers.records, start, _count(request))

    async def record(self, request: Request) -> Response:
        return await self._read(self._answers.record, _part(request, "number"), _first(request))

    async def rows(self, request: Request) -> Response:
        key, given = self._key(request), request.query_params.get("rows")
        if given is not None:
            rows = numbers(given, "rows", most=_MOST, count=MOST_LINES)
            return await self._read(self._answers.some_rows, key, rows)
        start = number(request.query_params.get("start"), "start", most=_MOST)
        return await self._read(self._answers.rows, key, start, _count(request))

    async def row(self, request: Request) -> Response:
        row = _part(request, "row")
        return await self._read(self._answers.row, self._key(request), row, _first(request))

    async def filter(self, request: Request) -> Response:
        query = request.query_params
        feature = number(query.get("feature"), "feature", most=_MOST)
        op, value = text(query, "op"), text(query, "value")
        return await self._read(self._answers.found, self._key(request), feature, op, value)

    async def item_media(self, request: Request) -> Response:
        key, item = self._key(request), _part(request, "item")
        return _media(request, await self._in_turn(self._answers.item_media, key, item))

    async def record_media(self, request: Request) -> Response:
        parts = [_part(request, name) for name in ("number", "feature", "value")]
        found = await self._in_turn(self._answers.record_media, *parts, _form(request))
        return _media(request, found)

    async def row_media(self, request: Request) -> Response:
        parts = [_part(request, name) for name in ("row", "feature", "value")]
        key, form = self._key(request), _form(request)
        return _media(request, await self._in_turn(self._answers.row_media, key, *parts, form))

    def _key(self, request: Request) -> Key:
        query, first = request.query_params, self._answers.first
        seed = number(query.get("seed"), "seed", most=2**32 - 1, default=first.seed)
        blocks = query.get("blocks")
        return Key(seed, number(blocks, "blocks", least=1, most=_MOST_BLOCKS, default=first.blocks))

    async def _read(self, answer: Callable[..., Any], *arguments: Any) -> Response:
        return JSONResponse(await self._in_turn(answer, *arguments))

    async def _in_turn(self, answer: Callable[..., T], *arguments: Any) -> T:
        async with self._turns:
            return await run_in_threadpool(answer, *arguments)


def _file(found: Asset) -> Response:
    return Response(found.content, media_type=found.media_type)


def _part(request: Request, name: str) -> int:
    try:
        return number(request.path_params[name], name, most=_MOST)
    except RefusedError as error:
        raise RefusedError(str(error), 404) from None


def _count(request: Request) -> int:
    given = request.query_params.get("count")
    return number(given, "count", least=1, most=MOST_LINES, default=_LINES)


def _form(request: Request) -> Form:
    if number(request.query_params.get("file"), "file", most=1):
        return "file"
    return "small" if number(request.query_params.get("small"), "small", most=1) else "whole"


def _first(request: Request) -> int:
    return number(request.query_params.get("first"), "first", most=_MOST)


def _media(request: Request, found: Media) -> Response:
    """The bytes, or the range of them that a player asks for."""
    headers = {"Accept-Ranges": "bytes"}
    if found.media_type == A_FILE:
        headers["Content-Disposition"] = "attachment; filename=value"
    whole = len(found.content)
    wanted = re.fullmatch(r"bytes=(\d{1,15})-(\d{0,15})", request.headers.get("range", ""))
    if wanted is None:
        return Response(found.content, 200, headers, found.media_type)
    start = int(wanted[1])
    stop = min(int(wanted[2]) + 1 if wanted[2] else whole, whole)
    if start >= stop:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{whole}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{whole}"
    return Response(found.content[start:stop], 206, headers, found.media_type)
