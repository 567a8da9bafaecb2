"""The life of a writer: how it begins, and whether it is open, closed or failed."""

from __future__ import annotations

import errno
import io
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from typing_extensions import Buffer as BytesLike, Self

from tfio_store.dataset.folder import check_hides_nothing, look_inside
from tfio_store.dataset.names import DatasetNames, new_tag
from tfio_store.records.framing import RecordBatch
from tfio_store.storage.store import early
from tfio_store.write.appended import schema_of_both
from tfio_store.write.claim import put_claim
from tfio_store.write.commit import Attempt, Plan
from tfio_store.write.placement import FixedShards, RollingShards, ShuffledShards
from tfio_store.write.records import RecordCheck, runs
from tfio_store.write.shard_uploads import ShardUploads

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder, FoundManifest
    from tfio_store.storage.threads import Owner


class Lifecycle:
    """The part that all writers share. A writer begins open, and ends once.

    A writer that failed, in whichever thread, raises its failure at every later call.
    """

    _ended = False  # a plain attribute: `write` looks at it for each record
    _failure: BaseException | None = None
    _is_aborted = False
    _shown = "?"
    """A short text of what is written, for people to read."""
    _owner: Owner
    _drop: Callable[[], object] | None = None
    """Removes what was written. None when that is gone, or there to stay. A finalizer calls it too,
    so it must not hold the writer."""
    _loss = "what it was given is lost"
    """What is said of a writer that is dropped."""

    def __repr__(self) -> str:
        state = "open" if not self._ended else "closed" if self._failure is None else "failed"
        return f"<{type(self).__name__} of {self._shown}, {state}>"

    def close(self) -> object:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError

    def _refuse(self) -> NoReturn:
        raise self._failure or ValueError("the writer is closed")

    def _set_ended(self, failure: BaseException | None) -> None:
        self._failure = failure
        self._ended = True

    def _stop(self, failure: BaseException) -> None:
        """Another thread calls this when it has failed."""
        if not self._ended:
            self._set_ended(failure)

    def _end(self, failure: BaseException | None) -> None:
        """Stop once, and remove what was written, if it is not there to stay. The first failure
        stays, so that `close` raises it also behind an abort."""
        self._set_ended(self._failure or failure)
        drop, self._drop = self._drop, None
        if drop is not None and self._owner.is_here:
            drop()

    def _give_up(self) -> None:
        """What `abort` does. The context is left quietly then, also if the writer has failed."""
        self._is_aborted = True
        self._end(None)

    def _end_again(self) -> None:
        """A second `close`, or one after another thread has failed. An abort is no failure."""
        self._end(None)
        if self._failure is not None:
            raise self._failure

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if self._drop is not None and self._owner.is_here:
            name = type(self).__name__
            warn(f"a {name} was dropped without close(): {self._loss}", stacklevel=2)
            self._owner.later(self._drop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abort()
        elif not self._ended or (self._failure is not None and not self._is_aborted):
            self.close()


class ShardWriter(Lifecycle):
    """The part that the writers of shards share."""

    _check: RecordCheck
    _block_bytes: int
    _shards: FixedShards | RollingShards | ShuffledShards
    _uploads: ShardUploads

    def write_batch(self, records: Iterable[BytesLike | Mapping[str, Any]] | RecordBatch) -> None:
        """Add many records, several times as fast as one by one.

        They go to the same shards as by `write`.

        If it raises, the writer cannot go on, because some of the records may have been added.

        Args:
            records (Iterable | RecordBatch): Records as `write` takes them.

        Raises:
            OSError: Writing has failed.
            SchemaError: A mapping is not as the schema says.
            TypeError: A record is of another type.
            ValueError: The writer is closed.
        """
        if self._ended:
            self._refuse()
        self._owner.check("the writer")
        try:
            for run in self._check.each(runs(records, self._block_bytes)):
                if self._ended:
                    self._refuse()
                self._shards.write_run(run)
        except BaseException as error:
            self._end(error)
            raise


# How a writer begins: step 1 of `tfio_store.write.commit`.


def begin(
    folder: Folder,
    names: DatasetNames,
    plan: Plan,
    *,
    schema: dict[str, Any] | None = None,
    plain: bool = True,
) -> Attempt:
    """Step 1. FileExistsError when there is a dataset and ``plan.if_exists`` is "error", or a file
    of the dataset's name; IsADirectoryError when a new dataset would hide what readers find in a
    folder of its name; ValueError if it is to be appended to, and has another ``schema``.

    ``plain``: whether plain names will do, if they are free.
    """
    try:
        return _begun(folder, names, plan, schema, plain=plain)
    except OSError as error:
        refused = isinstance(error, PermissionError | NotADirectoryError)
        claimed = names.claim(None) in str(error.filename)
        absent = claimed and isinstance(error, FileNotFoundError)
        if not (refused or absent or error.errno == errno.EROFS):
            raise
        raise _of_the_folder(folder, names, error) from error


def _of_the_folder(folder: Folder, names: DatasetNames, error: OSError) -> OSError:
    """The error, which names an object of ours, in words about the folder that it lies in."""
    url = folder.url(names.name)
    place = url.rpartition("/")[0] or "/"
    if isinstance(error, NotADirectoryError):
        words = f"{place} is a file, or lies below one; give the dataset another folder"
    elif isinstance(error, FileNotFoundError):
        words = f"the folder {place} is not there and can't be made; check the name"
    else:
        words = f"the folder {place} can't be written to; check its permissions or your credentials"
    return type(error)(error.errno, f"{words} ({error.strerror or error})", url)


def _begun(
    folder: Folder, names: DatasetNames, plan: Plan, schema: dict[str, Any] | None, *, plain: bool
) -> Attempt:
    store, path = folder.store, folder.join(names.name)
    look = early(store, store.look, path)
    inside: Callable[[], list[str]] = partial(look_inside, store, path)
    if plan.if_exists == "error":  # then mostly no dataset is there, and this is needed
        inside = early(store, inside)
    found = folder.manifest(names.manifest, index=plan.append, damaged=not plan.append)
    if look() is not None:
        raise FileExistsError(
            errno.EEXIST,
            "a file has this name, and whoever reads the name would get the file, not the dataset; "
            "write the dataset under another name, or remove the file",
            folder.url(names.name),
        )
    if found is None:
        check_hides_nothing(store, path, inside())
    if found is not None:
        _check_replaceable(folder, names, plan, found)
        if plan.append:
            schema_of_both(found.manifest, schema)
    generation = new_tag()
    is_plain = put_claim(
        folder, names, generation, plain=plain and found is None, copies=plan.globbed
    )
    kept = found.manifest if found is not None and plan.append else None
    appends_to = kept.schema if kept is not None and kept.records else None
    base = found.identity if found else None
    return Attempt(folder, names, plan, generation, is_plain, base, appends_to)


def _check_replaceable(
    folder: Folder, names: DatasetNames, plan: Plan, found: FoundManifest
) -> None:
    url = folder.url(names.name)
    if plan.if_exists == "error":
        raise FileExistsError(
            errno.EEXIST,
            'the dataset exists; pass if_exists="overwrite" to replace it, or if_exists="append" '
            "to add to it",
            url,
        )
    if found.etag is None:
        raise io.UnsupportedOperation(
            f"{url}: this store gives no version of an object, without which a "
            "dataset can't be replaced safely; write it under another name"
        )
    if plan.append and found.manifest is not None:
        plan.check_codec(found.manifest)
