"""Documents in rows of one length, compiled. `tfio_store.loader.pure_pack` answers to the same
names.
"""

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

_Int32Array = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]

class Plan:
    """Which pieces of documents go into which row. The documents lie end to end in columns of any
    dtype, and document i has the values ``splits[i]:splits[i + 1]``.

    With ``concat`` each follows the one before, and is cut where a row ends. Otherwise documents
    longer than ``length`` are cut into pieces of it, and the largest piece comes first, into the
    first row with room; the rows come in the order of their first documents. ValueError where
    splits do not rise from 0.
    """

    def __new__(cls, splits: npt.NDArray[np.int64], length: int, concat: bool) -> Self: ...
    @property
    def rows(self) -> int:
        """The number of rows."""
    def copy(self, first: int, last: int, parts: list[_Bytes], padding: bytes, out: _Bytes) -> None:
        """Copy rows of a column to those of ``out``: [last - first, length * the bytes of a value].
        ``parts``: the bytes of the column, in whole documents. ``padding``: the bytes of the value
        behind the last document of a row. ValueError where these do not fit."""
    def mark(self, first: int, last: int, segments: _Int32Array, positions: _Int32Array) -> int:
        """Fill [last - first, length] with the number of the piece in its row, from 1 on, and the
        place in the piece, from 0 on; with zeros behind the last piece. Answers how many values the
        rows hold."""
