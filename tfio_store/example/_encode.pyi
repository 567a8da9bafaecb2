"""Writing tf.train.Example, compiled. `tfio_store.example.pure` answers to the same names."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

def encode_example(features: Mapping[str, Any], /) -> bytes:
    """One serialized Example; see `tfio_store.encode_example`."""

def encode_sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Sequence[Any]], /
) -> bytes:
    """One serialized SequenceExample; see `tfio_store.encode_sequence_example`."""

def encode_columns(
    columns: list[tuple[bytes, Any, Int64Array | None, int]], records: int, /
) -> tuple[memoryview, Int64Array]:
    """Examples of a table: (their bytes end to end, int64[records + 1] offsets).

    A column is (key, values, row_splits or None, width): record i has the flat values
    ``row_splits[i]:row_splits[i + 1]``, or ``i * width:(i + 1) * width``. Values are a float32 or
    int64 array of one dimension, a list of bytes and str, or (buffer, offsets, lengths) of byte
    strings. Columns are written in the order given. ValueError, naming the column, where the sizes
    do not fit.
    """
