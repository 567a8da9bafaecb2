"""Text index files as DALI's and vahidk's ``tfrecord2idx`` write them: ``offset size`` of each
frame, line by line.

They come from outside, and may belong to another file. So they are checked.
"""

from __future__ import annotations

import numpy as np

from tfio_store.dataset.block_tables import Int64Array
from tfio_store.errors import ManifestError
from tfio_store.records.framing import FRAME_OVERHEAD

__all__ = ["format_idx", "parse_idx"]


def format_idx(frames: Int64Array, nbytes: int) -> bytes:
    """Write the text for a file of ``nbytes`` bytes whose frames begin at the offsets
    ``frames``."""
    sizes = np.diff(np.append(frames, nbytes))
    return "".join(f"{at} {size}\n" for at, size in zip(frames, sizes, strict=True)).encode()


def parse_idx(data: bytes, *, nbytes: int, path: str) -> Int64Array:
    """int64 [n_records]: frame offsets. ManifestError unless the frames fill a file of
    ``nbytes``."""
    try:
        rows = [tuple(map(int, line.split())) for line in data.decode("ascii").splitlines() if line]
        table = np.array(rows, np.int64).reshape(-1, 2)
    except (ValueError, OverflowError) as error:
        raise ManifestError(f"{path}: a line is not 'offset size': {error}") from error
    starts, sizes = table[:, 0], table[:, 1]
    if (sizes < FRAME_OVERHEAD).any() or (sizes > nbytes).any():
        raise ManifestError(f"{path}: gives a record a size that no record of this file has")
    ends = np.cumsum(sizes)
    if not np.array_equal(starts, ends - sizes) or (ends[-1] if len(ends) else 0) != nbytes:
        raise ManifestError(
            f"{path}: its frames do not fill the file's {nbytes} bytes; write it anew"
        )
    return np.ascontiguousarray(starts)
