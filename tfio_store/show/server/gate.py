"""Who may ask: every request passes here first.

Any page that a browser shows may send requests to this machine, and a name that a stranger owns may
be made to lead here (DNS rebinding). So a request must bear the token that the terminal printed,
or the cookie that it became, and name this machine as its host. All else is turned away before
anything reads its path.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Gate"]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "private, no-store",
}
"""Of every answer."""

NO_TOKEN = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>tfio-store view</title>
<h1>This page needs its token</h1>
<p>Open the whole address that <code>tfio-store view</code> printed, with its
<code>?token=…</code>.
<p>If a link on another page brought you here, <a href="/">go on</a>.
"""


class Gate:
    """Lets through what may ask, and gives each answer the `HEADERS`.

    ``port`` is the one that the server listens at, on this machine alone.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app = app
        self._token = token.encode()
        self._once: set[bytes] = set()
        self._cookie = f"tfio_store_{port}"  # cookies know no ports: another server has another
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = {f"{name}:{port}".encode() for name in names}

    def once(self) -> str:
        """A token that is good for one request. A browser's command line, which all users of a
        machine may see, has this one."""
        token = secrets.token_urlsafe(32)
        self._once.add(token.encode())
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no WebSocket is ever accepted

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to who may not ask, or brings the token; None to all others."""
        hosts = list(_values(scope, b"host"))
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 only.", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("GET only.", 405, headers={"Allow": "GET, HEAD"})
        if scope["path"] == "/" and self._brings_token(scope["query_string"]):
            return self._welcome()
        if not any(map(self._matches, self._cookies(scope))):
            return HTMLResponse(NO_TOKEN, 403)
        if _is_of_another_page(scope):
            return PlainTextResponse("Other pages may not ask.", 403)
        return None

    def _brings_token(self, query: bytes) -> bool:
        try:
            given = parse_qs(query.decode("ascii"), max_num_fields=8).get("token", [])
        except ValueError:
            return False
        tokens = [each.encode("utf-8", "surrogatepass") for each in given]
        return any(self._matches(each) or self._is_first(each) for each in tokens)

    def _is_first(self, given: bytes) -> bool:
        for token in self._once:
            if secrets.compare_digest(given, token):
                self._once.remove(token)
                return True
        return False

    def _welcome(self) -> Response:
        """The token becomes a cookie, and leaves the address, where a screenshot would show it."""
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self._cookie, self._token.decode(), path="/", httponly=True, samesite="strict"
        )
        return response

    def _cookies(self, scope: Scope) -> Iterable[bytes]:
        for header in _values(scope, b"cookie"):
            for pair in header.split(b";"):
                name, _, value = pair.strip().partition(b"=")
                if name == self._cookie.encode():
                    yield value

    def _matches(self, given: bytes) -> bool:
        return secrets.compare_digest(given, self._token)


def _is_of_another_page(scope: Scope) -> bool:
    """Whether a page of another origin asks, which the browser tells. A link there may be followed:
    its page sees nothing of the answer."""
    site = next(iter(_values(scope, b"sec-fetch-site")), b"none")
    mode = next(iter(_values(scope, b"sec-fetch-mode")), b"")
    return site in (b"cross-site", b"same-site") and mode != b"navigate"


def _values(scope: Scope, name: bytes) -> Iterable[bytes]:
    return (value for key, value in scope["headers"] if key == name)
