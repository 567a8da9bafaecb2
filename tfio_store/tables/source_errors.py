"""Names the source of records in errors that are raised where records alone are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tfio_store.dataset.source import is_one
from tfio_store.errors import CorruptRecordError, SchemaError
from tfio_store.storage.redaction import redacted

__all__ = ["of_source"]

_IN_BATCH = re.compile(r"record (\d+) of the batch")


@contextmanager
def of_source(source: object, first: int = 0) -> Iterator[None]:
    """Errors name the source, if it is one name, and count its records; ``first`` is the number of
    the first record of the batch at hand."""
    try:
        yield
    except CorruptRecordError as error:
        if error.path != "<buffer>" or not is_one(source):
            raise
        reason = _IN_BATCH.sub(lambda found: f"record {first + int(found[1])}", error.reason)
        path = redacted(str(source))
        raise CorruptRecordError(reason, path=path, offset=-1) from error.__cause__
    except SchemaError as error:
        raise SchemaError(
            error.reason,
            feature=error.feature,
            record=first + error.record,
            path=redacted(str(source)) if is_one(source) else "",
        ) from error.__cause__
