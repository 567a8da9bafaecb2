"""Arguments that are named as Beam names them, and what they mean here."""

from __future__ import annotations

from typing import Any

from apache_beam.coders import BytesCoder
from apache_beam.io.filesystem import CompressionTypes

__all__ = ["codec_of", "decoder_of"]

_CODECS = {
    CompressionTypes.AUTO: "auto",
    CompressionTypes.UNCOMPRESSED: None,
    CompressionTypes.GZIP: "GZIP",
    CompressionTypes.DEFLATE: "ZLIB",
    CompressionTypes.ZSTD: "ZSTD",
}


def codec_of(compression_type: str | None, *, auto: str | None) -> str | None:
    """Our name of a `CompressionTypes`. ``auto``: what AUTO amounts to. ValueError for one that
    TFRecord files do not have."""
    name = compression_type.lower() if isinstance(compression_type, str) else "uncompressed"
    if name not in _CODECS:
        raise ValueError(
            f"compression_type={compression_type!r}: TFRecord files have one of "
            f"{', '.join(_CODECS)}"
        )
    return auto if name == "auto" else _CODECS[name]


def decoder_of(coder: Any, *, batched: bool) -> Any:
    """The coder, or None if records stay bytes."""
    if coder is None or type(coder) is BytesCoder:
        return None
    if batched:
        raise ValueError("coder= is for single records; batched=True gives columns by the schema")
    return coder
