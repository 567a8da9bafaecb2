"""Globs as TensorFlow has them, and what a listing said about names."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable

__all__ = ["Hints", "expand"]

WILD = re.compile(r"[*?\[\\]")


def is_pattern(segment: str) -> bool:
    return WILD.search(segment) is not None


def segment_matcher(segment: str) -> re.Pattern[str]:
    r"""``*`` any run, ``?`` any one, ``[a-z]`` one of, ``[^a-z]`` none of, ``\x`` x itself."""
    found, at = [], 0
    while at < len(segment):
        char = segment[at]
        close = closing(segment, at) if char == "[" else -1
        if close > 0:
            found.append(charset(segment[at + 1 : close]))
            at = close
        elif char == "\\" and at + 1 < len(segment):
            at += 1
            found.append(re.escape(segment[at]))
        else:
            found.append({"*": ".*", "?": "."}.get(char, re.escape(char)))
        at += 1
    return re.compile("".join(found), re.DOTALL)


def closing(segment: str, at: int) -> int:
    """Where the set that begins at ``at`` ends. -1 if it does not end: then "[" stands for
    itself."""
    first = at + 2 if segment[at + 1 : at + 2] in ("^", "!") else at + 1
    return segment.find("]", first + 1)


def charset(body: str) -> str:
    negated = body[0] in "^!"
    inner = re.sub(r"([\[\]&~|^])", r"\\\1", body[1:] if negated else body)
    return f"[{'^' if negated else ''}{inner}]"


def expand(
    root: str,
    segments: list[str],
    names: Callable[[list[str], bool], list[list[str]]],
    exists: Callable[[str], bool],
) -> list[str]:
    """Paths below ``root`` that match ``segments``, sorted.

    ``names(folders, last)`` gives the names in each folder, all or (not ``last``) those of its
    folders; ``exists`` is asked for a path that ends in segments without a wildcard.
    """
    found, listed = [root], True
    for index, segment in enumerate(segments):
        last = index + 1 == len(segments)
        listed = is_pattern(segment)
        if listed:
            matches = segment_matcher(segment).fullmatch
            below = zip(found, names(found, last), strict=True)
            found = [f"{folder}/{name}" for folder, has in below for name in has if matches(name)]
        else:
            found = [f"{folder}/{segment}" for folder in found]
    return sorted(path for path in found if listed or exists(path))


# Remembers what a listing said about names, for the questions that follow it.


SECONDS = 5.0


class Hints:
    """Whether listed paths are folders, remembered for a few seconds.

    ``tf.io.gfile.walk`` asks ``isdir`` about every name of a listing. Without the memory, 10,000
    keys would take 10,000 requests. Only ``isdir`` uses it, and any change made here clears it. So
    at worst somebody else's change is seen a few seconds late.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, bool] = {}
        self._until = 0.0

    def learn(self, listed: Iterable[tuple[str, bool]]) -> None:
        now = time.monotonic()
        with self._lock:
            if now > self._until:
                self._known.clear()
                self._until = now + SECONDS
            self._known.update(listed)

    def is_folder(self, path: str) -> bool | None:
        """None: not known."""
        with self._lock:
            return self._known.get(path) if time.monotonic() <= self._until else None

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def after_fork(self) -> None:
        self._lock = threading.Lock()
