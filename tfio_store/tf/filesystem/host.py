"""Carries out TensorFlow's filesystem calls on a store.

The calls arrive with whole URLs, cleaned ("//", "." and ".." are gone), from any thread.
TensorFlow's header ``filesystem_interface.h`` says what it expects of each. Where the header leaves
a choice, this does what the local filesystem does, so that a program sees the same on both.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial

from tfio_store.storage import Storage
from tfio_store.storage.connection import check_may_wait, give_up_waiting
from tfio_store.storage.store import ObjectInfo, Store
from tfio_store.storage.threads import mapped
from tfio_store.tf.bridge import code_of, explained
from tfio_store.tf.filesystem.files import APPEND_LIMIT, ReadFile, WriteFile
from tfio_store.tf.filesystem.folders import Entry, Folders, Hints, expand, folders_of
from tfio_store.tf.garbage import GIVEN_UP, has_a_caller, wait_until_destroyed, watch

LISTINGS_AT_ONCE = 16

log = logging.getLogger("tfio_store")


@dataclass(slots=True)
class Mount:
    """How the URLs of one scheme are served."""

    storage: Storage
    _folders: dict[Store, Folders] = field(default_factory=dict)

    def open(self, url: str) -> tuple[Store, str]:
        """The store of the files' bytes, and the path in it."""
        return self.storage.open(url)

    def folders(self, url: str) -> Folders:
        """fsspec shows the folders, whichever backend moves the bytes."""
        store, _ = replace(self.storage, backend="fsspec", cache=None).open(url)
        if store not in self._folders:
            self._folders[store] = folders_of(store)
        return self._folders[store]


class Host:
    """Serves the schemes in ``mounts``."""

    def __init__(self, abandon: Callable[[str], None]) -> None:
        """``abandon`` lets all reads that are on their way fail, for this reason."""
        self.mounts: dict[str, Mount] = {}
        self._abandon = abandon
        self._watched = False
        self._hints = Hints()
        self._after_fork()
        os.register_at_fork(after_in_child=self._after_fork)

    # ---- files ----

    def open_reader(self, url: str) -> ReadFile:
        store, path = self._store(url)
        self._watch_once()
        thread = threading.get_ident()
        self._openers.add(thread)
        try:
            return ReadFile(store, path, url)
        except CancelledError as fault:
            raise ConnectionError(errno.ECONNABORTED, GIVEN_UP, url) from fault
        finally:
            self._openers.discard(thread)

    def _watch_once(self) -> None:
        if not self._watched:
            self._watched = True
            watch(self._give_up)

    def _give_up(self) -> None:
        self._abandon(GIVEN_UP)
        for thread in self._openers.copy():
            give_up_waiting(thread)

    def open_writer(self, url: str, *, append: bool) -> WriteFile:
        store, path, folders = self._place(url)
        if folders.is_folder(path):
            raise is_a_folder(url)
        found = self._to_append_to(store, path, url) if append else None
        writer = WriteFile(store, path, url, append=append, found=found)
        with self._lock:
            self._writers.add(writer)
        self._hints.clear()
        return writer

    def write(self, writer: WriteFile, data: bytes) -> None:
        self._take(writer, partial(writer.write, data))

    def sync(self, writer: WriteFile) -> None:
        self._take(writer, writer.sync)

    def finish_writer(self, writer: WriteFile, data: bytes) -> None:
        """Make a file visible, with its last bytes."""
        self._take(writer, partial(writer.finish, data))

    def release_writer(self, writer: WriteFile, data: bytes) -> None:
        """Handle a dropped file. One that was not closed is not lost: it is finished."""
        if not writer.is_finished and writer.owner.is_here:
            self._leave_to_thread(writer, partial(writer.end_with, data))

    def _take(self, writer: WriteFile, step: Callable[[], None]) -> None:
        """TensorFlow's own finalizers write to files, sync and close them: those of a record writer
        and of a writer of summaries. They can't wait: the thread that runs them may be the one that
        answers all requests, or be inside a lock. So what they ask for counts as done, and a
        failure is logged."""
        if has_a_caller():
            writer.do(step)
        else:
            self._leave_to_thread(writer, step)

    def _leave_to_thread(self, writer: WriteFile, step: Callable[[], None]) -> None:
        """Let a thread take this step. From now on each call on a path waits for it, each step of
        the file comes behind it, and so does the end of the program."""
        writer.put_off(step)
        ended: Future[None] = Future()
        self._ending.add(ended)
        writer.owner.later(self._catch_up, writer, ended)

    def _catch_up(self, writer: WriteFile, ended: Future[None]) -> None:
        try:
            writer.catch_up()
        except Exception as fault:
            self.report_lost(writer, fault)
        finally:
            self._ending.discard(ended)
            ended.set_result(None)

    def _to_append_to(self, store: Store, path: str, url: str) -> ObjectInfo | None:
        try:
            found = store.info(path)
        except FileNotFoundError:
            return None
        if found.size > APPEND_LIMIT:
            raise OSError(
                errno.EFBIG,
                f"it has {found.size} bytes, and appending, which writes the object anew, is "
                f"refused over {APPEND_LIMIT}; write another file instead",
                url,
            )
        return found

    # ---- questions about paths ----

    def stat(self, url: str) -> Entry:
        _, path, folders = self._place(url)
        return folders.stat(path)

    def exists(self, url: str) -> None:
        self.stat(url)

    def is_directory(self, url: str) -> None:
        """Return for a folder, raise for anything else. The status is TensorFlow's answer."""
        known = self._hints.is_folder(url)
        if known is None:
            known = self.stat(url).is_folder
        if not known:
            raise is_no_folder(url)

    def children(self, url: str) -> list[str]:
        return [entry.name for entry in self._entries(url)]

    def _entries(self, url: str) -> list[Entry]:
        _, path, folders = self._place(url)
        try:
            found = folders.entries(path)
        except FileNotFoundError:
            folders.stat(path)  # raises, unless it is a file
            raise is_no_folder(url) from None
        self._hints.learn((f"{url}/{entry.name}", entry.is_folder) for entry in found)
        return found

    def glob(self, pattern: str) -> list[str]:
        scheme, _, rest = pattern.partition("://")
        root, *segments = rest.rstrip("/").split("/")
        return expand(f"{scheme}://{root}", segments, self._names, self._is_there)

    def _names(self, folders: list[str], last: bool) -> list[list[str]]:
        def names(url: str) -> list[str]:
            try:
                return [entry.name for entry in self._entries(url) if last or entry.is_folder]
            except (FileNotFoundError, NotADirectoryError):
                return []

        return list(mapped(names, folders, LISTINGS_AT_ONCE))

    def _is_there(self, url: str) -> bool:
        try:
            self.stat(url)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    # ---- changes ----

    def create_directory(self, url: str) -> None:
        if self._is_there(url):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), url)
        parent = parent_of(url)
        with contextlib.suppress(FileNotFoundError):  # which needs no making on an object store
            if parent is not None and not self.stat(parent).is_folder:
                raise is_no_folder(parent)
        self._make([url])

    def create_directories(self, url: str) -> None:
        missing: list[str] = []
        at: str | None = url
        while at is not None and not self._is_there(at):
            missing.append(at)
            at = parent_of(at)
        if at is not None and not self.stat(at).is_folder:
            raise is_no_folder(at)
        self._make(reversed(missing))

    def _make(self, urls: Iterable[str]) -> None:
        for url in urls:
            _, path, folders = self._place(url)
            folders.make(path)
        self._hints.clear()

    def delete_file(self, url: str) -> None:
        store, path, folders = self._place(url)
        if folders.stat(path).is_folder:
            raise is_a_folder(url)
        store.delete([path])
        self._hints.clear()

    def delete_directory(self, url: str) -> None:
        _, path, folders = self._place(url)
        if not folders.stat(path).is_folder:
            raise is_no_folder(url)
        if folders.entries(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), url)
        folders.remove(path)
        self._hints.clear()

    def delete_tree(self, url: str) -> None:
        store, path, folders = self._place(url)
        if not folders.stat(path).is_folder:
            store.delete([path])
        if folders.is_folder(path):  # on a store one name may be both
            folders.remove_tree(path)
        self._hints.clear()

    def copy(self, url: str, target: str) -> None:
        """Files only, as on the local filesystem."""
        _, path, folders = self._place(url)
        if folders.stat(path).is_folder:
            raise is_a_folder(url)
        self._copy(url, path, target)

    def rename(self, url: str, target: str) -> None:
        """A copy and a delete. It is not atomic: meanwhile one may see both names."""
        store, path, folders = self._place(url)
        found = folders.stat(path)
        if url == target:
            return
        if found.is_folder:
            self._rename_folder(url, path, target)
        else:
            self._copy(url, path, target)
            store.delete([path])
        self._hints.clear()

    def _copy(self, url: str, path: str, target: str) -> None:
        _, to, folders = self._place(target)
        if folders.is_folder(to):
            raise is_a_folder(target)
        if url != target:
            folders.copy(path, to)
        self._hints.clear()

    def _rename_folder(self, url: str, path: str, target: str) -> None:
        _, to, folders = self._place(target)
        if f"{target}/".startswith(f"{url}/"):
            raise OSError(errno.EINVAL, f"a folder cannot move into itself ({target})", url)
        if self._is_there(target):
            if not folders.stat(to).is_folder:
                raise is_no_folder(target)
            if folders.entries(to):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        folders.move_tree(path, to)

    # ---- the rest ----

    def status(self, fault: BaseException, path: str) -> tuple[int, bytes]:
        """The code, and a text that names the path and the cause."""
        words = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        return code_of(fault), f"{path}: {explained(fault, words)}".encode("utf-8", "replace")

    def report_lost(self, writer: WriteFile, fault: BaseException | None = None) -> None:
        """Log that a file could not be finished. No caller is left."""
        what = "nothing of it was kept" if not writer.is_shown else "what is new in it was lost"
        why = f": {fault}" if fault else ", since it was still open when the program ended"
        log.error("%s: %s%s", writer.url, what, why)

    def leave(self) -> None:
        """The interpreter is ending: show what event files have, and drop half-written files."""
        wait_until_destroyed()
        self._settle()
        with self._lock:
            writers = list(self._writers)
        for writer in writers:
            try:
                if not writer.leave():
                    self.report_lost(writer)
            except Exception as fault:
                self.report_lost(writer, fault)

    def _store(self, url: str) -> tuple[Store, str]:
        return self._mount(url).open(url)

    def _place(self, url: str) -> tuple[Store, str, Folders]:
        mount = self._mount(url)
        store, path = mount.open(url)
        return store, path, mount.folders(url)

    def _mount(self, url: str) -> Mount:
        check_may_wait(url)
        self._settle()
        return self.mounts[url.partition("://")[0]]

    def _settle(self) -> None:
        if self._ending:
            wait(self._ending.copy())

    def _after_fork(self) -> None:
        """Start afresh in a forked child. It has none of its parent's files, and perhaps no free
        lock."""
        self._lock = threading.Lock()
        self._writers: weakref.WeakSet[WriteFile] = weakref.WeakSet()
        self._ending: set[Future[None]] = set()
        self._openers: set[int] = set()
        self._watched = False
        self._hints.after_fork()


def parent_of(url: str) -> str | None:
    """The folder that holds this one; None above a bucket."""
    scheme, _, path = url.partition("://")
    parent = path.rpartition("/")[0]
    return f"{scheme}://{parent}" if parent.strip("/") else None


def is_a_folder(url: str) -> IsADirectoryError:
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), url)


def is_no_folder(url: str) -> NotADirectoryError:
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), url)
