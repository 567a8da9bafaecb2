"""What a manifest tells of a dataset's records, beside where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from tfio_store.dataset.manifest import DatasetManifest

__all__ = ["Told", "common_told"]

_T = TypeVar("_T")


class Told(NamedTuple):
    """``schema`` (as JSON) and ``metadata`` hold for all records; each is None if nobody tells.
    ``generation`` is the manifest's."""

    schema: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    generation: str | None = None

    @classmethod
    def by(cls, manifest: DatasetManifest) -> Told:
        return cls(manifest.schema, manifest.metadata, manifest.generation)


def common_told(told: Sequence[Told]) -> Told:
    """What all of several sources have in common."""
    return Told(*map(_common, zip(*told, strict=True))) if told else Told()


def _common(values: Sequence[_T | None]) -> _T | None:
    return values[0] if all(value == values[0] for value in values) else None
