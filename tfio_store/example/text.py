"""`Text`: many strings as UTF-8 in one buffer, which no Python object stands for."""

from __future__ import annotations

from dataclasses import dataclass

from tfio_store.records.framing import RecordBatch

__all__ = ["Text"]


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Byte strings that are known to be UTF-8, and are to be read as str."""

    batch: RecordBatch

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, rows: slice) -> Text:
        return Text(self.batch[rows])

    @property
    def nbytes(self) -> int:
        """The bytes of all the strings (int)."""
        return self.batch.nbytes
