"""What a writer does at its commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tfio_store.dataset.manifest import DatasetManifest

__all__ = ["KEEP_REPLACED", "IfExists", "Names", "Plan"]

IfExists = Literal["error", "overwrite", "append"]
Names = Literal["tagged", "plain"]

KEEP_REPLACED = 3600.0
"""Seconds for which a replaced generation stays for its readers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a writer does at its commit."""

    if_exists: IfExists
    codec: str | None
    keep_replaced: float = KEEP_REPLACED
    copies: bool = False
    """Whether shards are copied to plain names, for readers that glob."""

    def __post_init__(self) -> None:
        if self.if_exists not in ("error", "overwrite", "append"):
            raise ValueError(
                f'if_exists must be "error", "overwrite" or "append", not {self.if_exists!r}'
            )
        keep = self.keep_replaced
        if not isinstance(keep, (int, float)) or isinstance(keep, bool) or not 0 <= keep < 1e11:
            raise ValueError(f"keep_replaced must be seconds, 0 or more, not {keep!r}")

    @property
    def append(self) -> bool:
        return self.if_exists == "append"

    def check_codec(self, manifest: DatasetManifest) -> None:
        """ValueError unless shards of this codec can be appended."""
        if manifest.compression != self.codec:
            raise ValueError(
                f"compression is {self.codec!r}, and that of the dataset to append to "
                f"{manifest.compression!r}: they must be the same"
            )
