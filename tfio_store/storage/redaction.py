"""Texts and exceptions without the passwords, signatures and tokens that they would show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

__all__ = ["ClientError", "redacted", "redacted_url", "secrets_in", "without_secrets"]

WORDS = "sig|credential|token|key|secret|pass|pwd|auth|policy|jwt"


def _around(letter: str, words: str) -> str:
    """A pattern of texts made of ``letter`` that hold one of ``words``. What is before the first of
    them holds none, so that there is one way to match. With more, a long text would take a time
    that grows with the square of its length."""
    return rf"(?:(?!{words}){letter})*(?:{words}){letter}*"


NAMES = (
    _around(r"(?:[\w.-]|%(?!26|23|3F|3D))", rf"{WORDS}|delegation|session|cookie|assertion|hmac")
    + "|code|sas|pw|otp"
)
"""Names of secrets: parameters of URLs, and options."""

LETTER = r"[\w.%-]"

PARAMETER = re.compile(
    rf"(?i)((?:[?&;#](?:{NAMES})|^{_around(LETTER, WORDS)})=)"
    r"(?:[^&#\s'\";,)>]|[,)](?=[\w%])|;(?![\w.%-]+=))+"
    rf"|((?:%3F|%26|%23)(?:{NAMES})%3D)(?:(?!%26|%23)[\w.%~+-])+"
)
"""A name and its value: in a URL's query or fragment, in a URL that is quoted in another one's, or
in a connection string."""

OPTION = re.compile(rf"(?i)(?:{NAMES}|connection_string)$")
"""An option whose value is a secret."""

USER_INFO = re.compile(
    r"(?i)(:/+)(?:[^/:\s'\"]*:[^/\s'\"]*@"  # user:password@; a local path has one slash
    # a password with "/"; a port is none. Bounded, since a text may have a colon anywhere
    r"|[^/:@\s'\"]*:(?!\d+(?:[/?#\s'\"]|$))[^@\s'\"]{0,1024}@)"
    r"|(\bhttps?:/+)[^/@\s'\"]+@"  # a token alone
)
HEADER = re.compile(r"(?i)\b((?:bearer|basic|sharedkey)\s+)[\w+/=.:~-]{6,}|(\bsignature=)[0-9a-f]+")

CARRIED = frozenset({"auth", "cookies", "headers"})
"""Options of which every text goes to the server, and may come back in its answers."""

LEAST_CARRIED = 4
"""Characters of such a text that is worth hiding, if no name says that it is a secret."""

FILE = re.compile(r"[/\\].*\.\w{1,5}$")
"""Options that are no secret but name a file that keeps one: an error must name it."""

WORD = 6
"""Shorter secrets are hidden where they stand alone: each may be a part of many words."""


class ClientError(Exception):
    """Takes the place of an exception that shows a secret. It says the rest of what that said."""


def redacted(text: str, secrets: re.Pattern[str] | None = None) -> str:
    """``text`` without the secrets that URLs, connection strings and headers in it carry, and
    without those that `secrets_in` found."""
    if secrets is not None:
        text = secrets.sub("…", text)
    if "=" not in text and ":/" not in text and len(text.split(maxsplit=1)) < 2:
        return text  # a local path fits no pattern, and a dataset may have many of them
    text = PARAMETER.sub(r"\1\2…", USER_INFO.sub(r"\1\2", text))
    return HEADER.sub(lambda found: f"{found[1] or found[2]}…", text)


@lru_cache(maxsize=256)
def redacted_url(url: str) -> str:
    """`redacted`, for addresses that are asked for again and again."""
    return redacted(url)


def secrets_in(options: Mapping[str, Any]) -> re.Pattern[str] | None:
    """The texts that options give as a token, a password or the like, as errors quote them."""
    forms = {
        form
        for text in _secret_texts(options)
        for form in (text, text.strip(), repr(text)[1:-1], quote(text), quote(text, ""),
                     quote_plus(text))
        if form
    }  # fmt: skip
    if not forms:
        return None
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(_pattern, longest_first)))


def _pattern(secret: str) -> str:
    found = re.escape(secret)
    return found if len(secret) >= WORD else rf"(?<!\w){found}(?!\w)"


def _secret_texts(options: Any, named: bool = False) -> Iterator[str]:
    """``named``: the name of an option says that it is a secret."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            if name in CARRIED:
                yield from _carried_texts(value)
            yield from _secret_texts(value, OPTION.match(str(name)) is not None)
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from _secret_texts(value, named)
    elif named and isinstance(options, (str, bytes)):
        text = options if isinstance(options, str) else options.decode(errors="replace")
        if FILE.search(text) is None:
            yield text


def _carried_texts(options: Any, named: bool = False) -> Iterator[str]:
    """The texts in `CARRIED` options. Of a cookie or a token, what follows its name or scheme too,
    which a server may repeat alone."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            yield from _carried_texts(value, OPTION.match(str(name)) is not None)
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from _carried_texts(value, named)
    elif isinstance(options, (str, bytes)):
        text = options if isinstance(options, str) else options.decode(errors="replace")
        if named or len(text) >= LEAST_CARRIED:
            yield text
        if named:
            yield from (part for part in re.split(r"[\s;,=]+", text)[1:] if len(part) >= WORD)


def without_secrets(fault: BaseException, secrets: re.Pattern[str] | None = None) -> BaseException:
    """``fault``, or what takes its place if it shows a secret. The same goes for its chain."""
    return _mended(fault, secrets, {})


def _mended(
    fault: BaseException,
    secrets: re.Pattern[str] | None,
    done: dict[int, tuple[BaseException, BaseException]],
) -> BaseException:
    """``done`` keeps what was met (so that no other gets its id), and what takes its place: one
    exception may be the cause and the context of another."""
    if id(fault) in done:
        return done[id(fault)][1]
    met = fault
    cause, context = fault.__cause__, fault.__context__
    notes = "".join(f"\n{note}" for note in getattr(fault, "__notes__", ()))
    said = f"{fault}{notes}\n{fault!r}\n{fault.args!r}"
    if redacted(said, secrets) != said:
        words = redacted(f"{fault}{notes}", secrets)
        stand_in = ClientError(f"{type(fault).__module__}.{type(fault).__name__}: {words}")
        fault, suppress = stand_in.with_traceback(fault.__traceback__), fault.__suppress_context__
        fault.__suppress_context__ = suppress
    done[id(met)] = met, fault
    suppress = fault.__suppress_context__  # which setting a cause sets
    if cause is not None:
        fault.__cause__ = _mended(cause, secrets, done)
    if context is not None:
        fault.__context__ = _mended(context, secrets, done)
    fault.__suppress_context__ = suppress
    return fault
