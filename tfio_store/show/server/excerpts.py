"""Values as a page shows them: short, harmless, and all of them as text. JSON's numbers would lose
the end of an int64, and there is no NaN among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.show.gallery import shown_number
from tfio_store.show.media_types import excerpt
from tfio_store.show.server.content import Held

__all__ = ["and_more", "meanings", "numbers", "short", "string"]


def string(value: memoryview, most: int) -> dict[str, Any]:
    """A byte string: its beginning as ``text`` of at most ``most`` characters, which is ``hex`` if
    the bytes are none. ``cut`` says that there is more; ``exact``, that it is all, as it stands."""
    head = bytes(value[: 4 * most + 8])
    text, cut = excerpt(head, most)
    is_hex = text.startswith("0x") and not head.startswith(b"0x")
    return {
        "nbytes": len(value),
        "text": text,
        "hex": is_hex,
        "exact": not is_hex and text.encode() == value,
        "cut": cut or len(head) < len(value),
    }


def numbers(values: npt.NDArray[Any]) -> list[str]:
    """Each in the fewest digits that tell it."""
    if values.dtype.kind == "f" and values.dtype.itemsize < 4:
        values = values.astype(np.float32)
    shown: list[str] = values.astype("U32").tolist()
    return shown


def meanings(held: Held, most: int) -> list[str] | None:
    """What numbers mean by the schema: the names of classes, the moments of times."""
    feature = held.feature
    if held.numbers is None or feature is None:
        return None
    if feature.kind is None and not feature.dtype.startswith("datetime64["):
        return None
    shown = [shown_number(value, feature) for value in held.numbers[:most].tolist()]
    return None if shown == numbers(held.numbers[:most]) else shown


def and_more(held: Held) -> str:
    """What follows the first of a feature's values in one line."""
    return f" and {held.count - 1:,} more" if held.count > 1 else ""


def short(held: Held, most: int) -> str:
    """All values of a feature in one cell of about ``most`` characters."""
    if not held.count:
        return ""
    if held.numbers is None:
        first = string(held.view(0), most)
        text = f"{first['nbytes']:,} bytes" if first["hex"] else " ".join(first["text"].split())
        more = "…" if first["cut"] and not first["hex"] else ""
        return f"{text}{more}{and_more(held)}"
    shown = most // 3
    texts = meanings(held, shown) or numbers(held.numbers[:shown])
    line = ", ".join(texts)
    if len(line) <= most and held.count <= shown:
        return line
    return f"{line[:most].rpartition(', ')[0] or line[:most]}, … {held.count:,} values"
