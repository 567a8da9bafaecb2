"""Whether what a read brought is right: the records of one generation, or a named error."""

from __future__ import annotations

from collections import Counter

import tfio_store as tfs
from tests.chaos_read.faults import CACHE, LINE, Fault
from tests.chaos_read.reads import Seen

__all__ = ["WrongError", "verdict"]


class WrongError(AssertionError):
    """A read that was neither right nor told what was wrong."""


WRONG_BYTES = ("flip", "flips", "zeros", "flipped")


def verdict(
    seen: Seen,
    fault: Fault,
    generations: list[list[bytes]],
    *,
    skip: bool,
    compressed: bool = False,
) -> str:
    """What became of the read of one of ``generations``. WrongError for a loss, a duplicate, a
    mixture or an error that says too little.

    Wrong bytes in a compressed stream may decode to what came before, checksums included: behind
    damage that was told of, a record of it may come again.
    """
    told = Counter(seen.records)
    ordered = seen.ordered
    if compressed and skip and fault.kind in WRONG_BYTES and seen.said:
        seen.records = list(dict.fromkeys(seen.records))
        ordered = ordered and fault.kind != "flipped"  # each read meets other damage
    else:
        _hold(max(told.values(), default=0) <= 1, "a record came twice")
    whole = next((each for each in generations if told.keys() <= set(each)), None)
    if whole is None:
        raise WrongError("records of two generations, or of none")
    expected = [record for record in whole if record in told]
    _hold(not ordered or seen.records == expected, "records out of order")
    if seen.error is not None:
        _hold(fault.kind != CACHE, f"a cache is no reason to fail: {seen.error!r}")
        if fault.kind == "flipped" and skip and "state= stands behind" in str(seen.error):
            return "a state behind what was sound when it was taken"  # each read meets other damage
        in_order = ordered and not skip
        _hold(
            not in_order or seen.records == whole[: len(seen.records)],
            "records are missing before the error",
        )
        return f"error: {_name(seen.error)}"
    if seen.partial:
        return "some records"
    if len(told) == len(whole):
        return "all records"
    if fault.quiet:
        return "all records of a file that looks whole"
    # of another compressed file, whose blocks lie elsewhere, nothing decompresses
    reasons = ("none", CACHE) if compressed else ("none", "replaced", CACHE)
    _hold(skip and fault.kind not in reasons, "records are missing, and no word")
    _hold(fault.kind not in LINE or fault.kind == "flipped", "sound records were skipped")
    _hold(seen.said > 0, "records were skipped without a word")
    return "some skipped, and told"


def _hold(right: bool, wrong: str) -> None:
    if not right:
        raise WrongError(wrong)


def _name(error: BaseException) -> str:
    """The error's kind, which must be the library's own, the storage's, or TensorFlow's."""
    kind = type(error)
    if isinstance(error, tfs.TFIOStoreError):
        _hold("case-" in str(error), f"the error names no file: {error}")
        return kind.__name__
    if isinstance(error, OSError):
        _hold("case-" in str(error), f"the error names no file: {error!r}")
        return kind.__name__
    if kind.__module__.startswith("tensorflow"):
        told = str(error)
        unavailable = "UnavailableError" in told  # which TensorFlow's executor keeps for itself
        _hold(kind.__name__ not in ("UnknownError", "InternalError") or unavailable, told)
        _hold("case-" in told, f"the error names no file: {told}")
        return f"tf.errors.{kind.__name__}"
    if isinstance(error, ValueError) and "no record can be reached by its number" in str(error):
        return "no random access"  # what made blocks of the stream is gone
    raise WrongError(f"an error that nobody announced: {error!r}") from error
