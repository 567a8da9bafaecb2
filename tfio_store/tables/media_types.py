"""Recognizes images and audio by their first bytes, and makes texts of records harmless to look
at."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

import numpy as np

# Text of records, made harmless to look at: no control characters, no turned reading direction.


MOST_LETTERS = 500

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""Characters that no text has. (Line ends, tabs and a terminal's colours some have.)"""

_KEPT = "\n\t"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories of characters that are not seen, or that change how others are."""

_JOINERS = "\u200d\u200c\ufe0f"
"""Joiners of emoji and of scripts that join letters: needed, and harmless."""


def visible(text: str) -> str:
    """The text, where characters that can't be seen stand as their number: ``\\u202e``. Line ends
    and tabs stay."""
    if text.isprintable():
        return text
    return "".join(map(_seen, text))


def _seen(letter: str) -> str:
    if letter in _KEPT or letter in _JOINERS or unicodedata.category(letter) not in _HIDDEN:
        return letter
    code = ord(letter)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def excerpt(data: bytes, most: int = MOST_LETTERS) -> tuple[str, bool]:
    """The beginning of a text in UTF-8, and whether it is not all. Bytes that are no text come as
    hexadecimal digits."""
    head = data[: 4 * most + 4]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if len(head) == len(data) or error.start < len(head) - 3:
            return _hex(data, most)
        text = head[: error.start].decode()
    short = len(text) > most or len(head) < len(data)
    text = visible(text[:most])
    if len(text) > most:  # characters that were made visible
        text, short = text[:most], True
    return text, short


def _hex(data: bytes, most: int) -> tuple[str, bool]:
    room = max(1, (most - 3) // 2)
    return f"0x{data[:room].hex()}" + "…" * (len(data) > room), len(data) > room


def is_text(data: bytes) -> bool:
    """Whether all of it is UTF-8, without characters that no text has."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


def shown_value(value: object, most: int = 100) -> str:
    """A value as `Top.value` and captions have it."""
    if isinstance(value, bytes):
        text, short = excerpt(value, most)
        return text + "…" * (short and not text.endswith("…"))
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    return str(value)


# Recognizes images and audio by their first bytes: from a short list of what a browser may be
# shown.
#
# SVG, HTML and anything else that runs code are not on it.


IMAGES = ("image/jpeg", "image/png", "image/gif", "image/bmp", "image/webp")
_AUDIO = ("audio/wav", "audio/flac", "audio/mpeg", "audio/ogg")

_SIGNATURES = (
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"GIF87a", 0, b"", "image/gif"),
    (b"GIF89a", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"fLaC", 0, b"", "audio/flac"),
    (b"OggS", 0, b"", "audio/ogg"),
    (b"ID3", 0, b"", "audio/mpeg"),
)
"""First bytes, other bytes at an offset, and the type that they mean."""

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MOST_SEGMENTS = 1000
"""Before an image's size, at most."""

_FIRST = frozenset(b"B\xff").union(first[0] for first, _, _, _ in _SIGNATURES)

_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
_KBITS = {  # of MPEG version and layer, by the header's number
    (3, 1): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 1): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def media_type(data: bytes) -> str | None:
    """The media type of a file with these bytes. None if it is on no list."""
    if not data or data[0] not in _FIRST:
        return None
    for first, offset, other, found in _SIGNATURES:
        if data.startswith(first) and data.startswith(other, offset):
            return found
    if _is_bmp(data):
        return "image/bmp"
    return "audio/mpeg" if _is_mp3(data) else None


def is_image(found: str | None) -> bool:
    """Whether a media type is of an image."""
    return found in IMAGES


def is_audio(found: str | None) -> bool:
    """Whether a media type is of audio."""
    return found in _AUDIO


def _is_bmp(data: bytes) -> bool:
    """ "BM" alone begins many texts."""
    if len(data) < 26 or not data.startswith(b"BM"):
        return False
    header = int.from_bytes(data[14:18], "little")
    return header in _BMP_HEADERS and data[6:10] == b"\0\0\0\0"


def _is_mp3(data: bytes) -> bool:
    """Whether there is a frame of MPEG layer III, and another one right behind it. Eleven bits
    alone are there in any noise."""
    size = _mp3_frame(data[:4])
    return size > 0 and len(data) >= size + 4 and _mp3_frame(data[size : size + 4]) > 0


def _mp3_frame(header: bytes) -> int:
    """The bytes of the frame that this header begins; 0 if it begins none."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return 0
    version, layer = header[1] >> 3 & 3, header[1] >> 1 & 3
    bits, rate = header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or layer != 1 or bits in (0, 15) or rate == 3:
        return 0
    kbits = _KBITS[3 if version == 3 else 2, 1][bits]
    per_frame = 144 if version == 3 else 72
    return per_frame * 1000 * kbits // _RATES[version][rate] + (header[2] >> 1 & 1)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of an image, by its header. None if that is damaged, or of no image."""
    found = media_type(data)
    if found == "image/png" and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if found == "image/jpeg":
        return _jpeg_size(data)
    if found == "image/webp":
        return _webp_size(data)
    if found == "image/gif" and len(data) >= 13:
        return _gif_size(data)
    if found == "image/bmp" and data[14:18] != b"\x0c\0\0\0":
        width = int.from_bytes(data[18:22], "little", signed=True)
        return abs(width), abs(int.from_bytes(data[22:26], "little", signed=True))
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """A frame's header stands behind segments, each of which has its length."""
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if len(data) < at + 9 or data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            return _number(data, at + 7, 2, "big"), _number(data, at + 5, 2, "big")
        at += 1 if marker == 0xFF else 2 + _number(data, at + 2, 2, "big")
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30:
        return None
    if data[12:16] == b"VP8X":
        return _number(data, 24, 3) + 1, _number(data, 27, 3) + 1
    if data[12:16] == b"VP8L":
        bits = _number(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8 ":
        return _number(data, 26, 2) & 0x3FFF, _number(data, 28, 2) & 0x3FFF
    return None


def _gif_size(data: bytes) -> tuple[int, int]:
    """The size of its screen, or of its first picture where that is larger: then it is drawn
    whole."""
    width, height = _number(data, 6, 2), _number(data, 8, 2)
    at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    for _ in range(_MOST_SEGMENTS):
        if data[at : at + 1] == b"\x2c" and len(data) >= at + 9:
            right, bottom = (
                _number(data, at + i, 2) + _number(data, at + i + 4, 2) for i in (1, 3)
            )
            return max(width, right), max(height, bottom)
        if data[at : at + 1] != b"\x21":
            break
        at += 2
        while at < len(data) and data[at]:
            at += data[at] + 1
        at += 1
    return width, height


def _number(data: bytes, at: int, size: int, order: Literal["little", "big"] = "little") -> int:
    return int.from_bytes(data[at : at + size], order)
