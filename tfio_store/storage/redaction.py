"""Texts and exceptions without the passwords, signatures and tokens that they would show."""

from __future__ import annotations

import re

__all__ = ["ClientError", "redacted", "without_secrets"]

PARAMETER = re.compile(
    r"(?i)((?:[?&;]|^)[\w.%-]*(?:sig|credential|token|key|secret|pass|pwd|auth|policy|jwt)[\w.%-]*=)"
    r"[^&#\s'\";,)>]+"
)
"""Of a signed URL's query, or of a connection string."""

USER_INFO = re.compile(
    r"(?i)(://)(?:[^/\s'\"]*:[^/\s'\"]*@"  # user:password@
    r"|[^/:@\s'\"]*:(?!\d+(?:[/?#\s'\"]|$))[^@\s'\"]*@"  # a password with "/"; a port is none
    r"|(?<=http://)[^/@\s'\"]+@|(?<=https://)[^/@\s'\"]+@)"  # a token alone
)
HEADER = re.compile(r"(?i)\b((?:bearer|basic|sharedkey)\s+)[\w+/=.:~-]{6,}|(\bsignature=)[0-9a-f]+")


class ClientError(Exception):
    """Takes the place of an exception that tells a secret. It says the rest of what that said."""


def redacted(text: str) -> str:
    """``text`` without the secrets that URLs, connection strings and headers in it carry."""
    if "=" not in text and "://" not in text and len(text.split(maxsplit=1)) < 2:
        return text  # a local path fits no pattern, and a dataset may have many of them
    text = PARAMETER.sub(r"\1…", USER_INFO.sub(r"\1", text))
    return HEADER.sub(lambda found: f"{found[1] or found[2]}…", text)


def without_secrets(fault: BaseException) -> BaseException:
    """``fault``, or what takes its place if it tells a secret. The same goes for its chain."""
    return _mended(fault, {})


def _mended(
    fault: BaseException, done: dict[int, tuple[BaseException, BaseException]]
) -> BaseException:
    """``done`` keeps what was met (so that no other gets its id), and what takes its place: one
    exception may be the cause and the context of another."""
    if id(fault) in done:
        return done[id(fault)][1]
    met = fault
    cause, context = fault.__cause__, fault.__context__
    said = f"{fault}\n{fault!r}\n{fault.args!r}"
    if redacted(said) != said:
        stand_in = ClientError(
            f"{type(fault).__module__}.{type(fault).__name__}: {redacted(str(fault))}"
        )
        fault, suppress = stand_in.with_traceback(fault.__traceback__), fault.__suppress_context__
        fault.__suppress_context__ = suppress
    done[id(met)] = met, fault
    suppress = fault.__suppress_context__  # which setting a cause sets
    if cause is not None:
        fault.__cause__ = _mended(cause, done)
    if context is not None:
        fault.__context__ = _mended(context, done)
    fault.__suppress_context__ = suppress
    return fault
