"""Arguments that are named as Beam names them, and what they mean here."""

from __future__ import annotations

import os
from typing import Any

from apache_beam.coders import BytesCoder
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.options.value_provider import StaticValueProvider, ValueProvider

__all__ = ["check_url", "codec_of", "decoder_of", "is_told", "told"]

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
    name = "uncompressed" if compression_type is None else str(compression_type).lower()
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


def check_url(url: Any) -> None:
    """TypeError or ValueError for what is no URL, nor will be."""
    if not isinstance(url, (str, os.PathLike, ValueProvider)):
        raise TypeError(f"file_path_prefix must be a path or URL, not {type(url).__name__}")
    if url == "":
        raise ValueError("file_path_prefix: pass a path or URL, not an empty string")


def is_told(given: Any) -> bool:
    """Whether `told` can be asked before the pipeline runs. A parameter of a template has the value
    of the pipeline that ran last in this process, if there was one."""
    return not isinstance(given, ValueProvider) or isinstance(given, StaticValueProvider)


def told(given: Any) -> Any:
    """The value of a template's parameter, and everything else as it is."""
    return given.get() if isinstance(given, ValueProvider) else given
