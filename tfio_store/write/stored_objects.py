"""Objects of a dataset's writers, as the store holds them: whether they are what was written, and
which of them may be deleted. What manifests name stays.
"""

from __future__ import annotations

import contextlib
import errno
import zlib
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.manifest import DatasetManifest, Fingerprint, listing_of
from tfio_store.dataset.names import MANIFEST_SUFFIX, DatasetNames
from tfio_store.errors import ManifestError
from tfio_store.records.framing import crc32c
from tfio_store.records.texts import warn
from tfio_store.storage.aside import facts_of
from tfio_store.storage.store import LOOKS_AT_ONCE, listed
from tfio_store.storage.threads import mapped

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder
    from tfio_store.dataset.manifest import ShardInfo
    from tfio_store.storage import ObjectInfo, PendingUpload, Store


# Checks that the store holds what was written: sizes and CRC32Cs, reported or read back.


_RANGE = 8 << 20
_RANGES_AHEAD = 4


class WrongContentError(OSError):
    """The store does not hold what was written (errno EIO)."""


def check_stored(stored: ObjectInfo, url: str, *, nbytes: int, crc: int) -> None:
    """WrongContentError unless ``stored`` has that size, and that CRC32C if it has one."""
    if stored.size != nbytes:
        raise WrongContentError(
            errno.EIO, f"{nbytes} bytes were written, and the store holds {stored.size}", url
        )
    if stored.crc32c is not None and stored.crc32c != crc:
        raise WrongContentError(
            errno.EIO,
            f"the bytes written have the CRC32C {crc:08x}, those in the store {stored.crc32c:08x}",
            url,
        )


def check_committed(store: Store, path: str, stored: ObjectInfo, *, nbytes: int, crc: int) -> None:
    """`check_stored` of an object that was just made. A store whose own checksum is wrong is told
    from one that holds other bytes."""
    try:
        check_stored(stored, store.url(path), nbytes=nbytes, crc=crc)
        return
    except WrongContentError as error:
        wrong = error
    with contextlib.suppress(OSError):  # which says nothing of the checksum
        if stored.size == nbytes and stored_crc32c(store, path, nbytes) == crc:
            reason = "this server computes checksums wrongly"
            if stored_crc32c(store, path, nbytes, zlib.crc32) == stored.crc32c:
                reason = (
                    "this is moto without the package that computes it. Stop the server, "
                    "pip install 'moto[server,s3crc32c]', and start it again"
                )
            wrong = WrongContentError(
                errno.EIO,
                f"the bytes are as they were written, with the CRC32C {crc:08x}, but the store "
                f"says {stored.crc32c:08x}, and what reads the dataset would take it for damaged; "
                f"{reason}",
                store.url(path),
            )
    raise wrong


def check_shards(
    folder: Folder,
    shards: Sequence[ShardInfo],
    *,
    among: int,
) -> None:
    """FileNotFoundError or WrongContentError unless the store holds every shard as written.

    A listing has a thousand in one request, of the ``among`` shards that the dataset has had.
    Where that is less work than to ask for each, only what it leaves open is asked for.
    """
    found = listed(folder.store, [folder.join(shard.name) for shard in shards], among=among)

    def check(shard: ShardInfo, stored: ObjectInfo | None = None) -> None:
        stored = stored or folder.store.info(folder.join(shard.name))
        check_stored(stored, folder.url(shard.name), nbytes=shard.nbytes, crc=shard.crc32c)

    unknown = []
    for shard in shards:
        stored = found.get(folder.join(shard.name))
        # under a plain name, others may have written as many bytes
        if stored is None or (stored.crc32c is None and not shard.name.startswith("_")):
            unknown.append(shard)
        else:
            check(shard, stored)
    list(mapped(check, unknown, LOOKS_AT_ONCE))


def read_back(store: Store, path: str, *, nbytes: int, crc: int) -> None:
    """Read the object's bytes. WrongContentError unless they have that CRC32C."""
    found = stored_crc32c(store, path, nbytes)
    if found != crc:
        raise WrongContentError(
            errno.EIO,
            f"the bytes written have the CRC32C {crc:08x}, those read back {found:08x}",
            store.url(path),
        )


def stored_crc32c(
    store: Store, path: str, nbytes: int, crc: Callable[[BytesLike, int], int] = crc32c
) -> int:
    """Read an object's bytes and compute their CRC32C, or another ``crc`` of them."""
    found = 0
    starts = range(0, nbytes, _RANGE)
    reads = (store.read(path, start, min(start + _RANGE, nbytes)) for start in starts)
    pending = deque(next(reads) for _ in range(min(_RANGES_AHEAD, len(starts))))
    while pending:
        found = crc(pending.popleft().result(), found)
        if (more := next(reads, None)) is not None:
            pending.append(more)
    return found


# Objects that manifests name: a dataset's, and those of its neighbours in the folder.
#
# Nobody knows what a manifest names if a page of its list of shards is damaged or missing. Then
# nothing may be deleted that it could name, and that is any object in the folder.


def manifest_and_names(folder: Folder, name: str) -> tuple[DatasetManifest, set[str]] | None:
    """A manifest, and what it names. None if there is none.

    A commit may replace the manifest, and delete its list, while this reads the one and then the
    other. Then the manifest is read again.

    Raises:
        ManifestError: the manifest or its list can't be read, or its list is missing.
    """
    before: bytes | None = None
    while True:
        found = folder.manifest(name, index=False)
        if found is None or found.manifest is None:
            return None
        try:
            return found.manifest, found.manifest.names()
        except FileNotFoundError as error:
            if found.data == before:
                missing = f"{folder.url(name)}: an object of its list of shards is missing: {error}"
                raise ManifestError(missing) from error
            before = found.data


def are_found(manifest: DatasetManifest) -> bool:
    """Whether patterns find the shards of a manifest, or will."""
    if manifest.publish is not None:
        return True
    try:
        listing = listing_of(manifest)
        last = len(listing) - 1
        return last < 0 or not listing.listed(last).shard.name.startswith("_")
    except (ManifestError, FileNotFoundError):
        return True


def named_now(
    folder: Folder, names: DatasetNames, current: DatasetManifest | None, *, hidden: bool = False
) -> set[str]:
    """What a dataset's ``current`` manifest names, or, if another has replaced it meanwhile, that
    one. ``hidden``: see `hidden_names`."""
    if current is None:
        return set()
    try:
        return hidden_names(current) if hidden else current.names()
    except FileNotFoundError:
        whole = manifest_and_names(folder, names.manifest)
        return set() if whole is None else whole[1]


def hidden_names(manifest: DatasetManifest) -> set[str]:
    """What it names under names that begin with ``_``, and maybe more. Where patterns find all
    shards, the list is not read whole."""
    if manifest.publish is None and are_found(manifest):
        return manifest.parts()
    return manifest.names()


def named_by_neighbours(
    folder: Folder, names: DatasetNames, *, shards: bool = True, hidden: bool = False
) -> set[str]:
    """Objects that the other manifests in the folder name. Without their ``shards`` no list of
    shards is read. ``hidden``: only names that begin with ``_`` are wanted. ManifestError: one
    can't be read."""
    named: set[str] = set()
    for name in folder.names(f"_*{MANIFEST_SUFFIX}"):
        if name == names.manifest:
            continue
        try:
            found = folder.manifest(name, index=False)
            manifest = None if found is None else found.manifest
            if manifest is None:
                continue
            visible = hidden and manifest.publish is None and are_found(manifest)
            whole = None if visible or not shards else manifest_and_names(folder, name)
            named |= manifest.parts() if whole is None else whole[1]
        except ManifestError as error:
            raise ManifestError(
                f"{folder.url(name)} may name any object beside it, because it cannot be read "
                f"whole: nothing is removed; repair or remove that dataset ({error})"
            ) from error
    return named


# Decides what a dataset's writers may delete, and deletes it.
#
# A name is this dataset's own if one of its templates makes it. A tagged name proves whose it is,
# because only writers draw tags. A plain one (``train-00000-of-00016.tfrecord``) proves nothing,
# because TensorFlow uses such names too. It is deleted only if it has the size and CRC32C that its
# writer noted. An object that another manifest in the folder names stays in any case.


def patterns(names: DatasetNames, templates: Iterable[str | None]) -> list[DatasetNames]:
    """The ways in which this dataset's shards may have been named."""
    found = [names, DatasetNames(names.name, 1), DatasetNames(names.name)]
    for template in {*templates}:
        with contextlib.suppress(ValueError):  # a manifest may hold anything
            found.append(names.like(template))
    return found


def tag_in(name: str, known: Sequence[DatasetNames]) -> str | None:
    """Return what `DatasetNames.tag_of` does, by any of the patterns."""
    return next((tag for one in known if (tag := one.tag_of(name)) is not None), None)


def replaced_by(
    new: DatasetManifest, old: DatasetManifest, names: DatasetNames
) -> tuple[Fingerprint, ...]:
    """The objects of ``old`` that ``new`` does not name, and that this library has written. If its
    list of shards is damaged, they are not known, and it can be overwritten all the same."""
    known = patterns(names, [old.shard_template])
    stays = new.names()
    try:
        shards = tuple(one.shard for one in listing_of(old).rows())
    except (ManifestError, FileNotFoundError) as error:
        warn(
            f"what is overwritten cannot be listed ({error}): its shards stay; tfio_store.clean "
            "removes those that have a tag in their names"
        )
        shards = ()

    def written_here(shard: str) -> bool:
        tag = tag_in(shard, known)
        # without a template they are foreign files that were only indexed
        return bool(tag) or (tag == "" and bool(old.shard_template))

    gone = [
        Fingerprint(shard.name, shard.nbytes, shard.crc32c)
        for shard in shards
        if shard.name not in stays and written_here(shard.name)
    ]
    return (*gone, *replaced_parts(new, old, names))


def replaced_parts(
    new: DatasetManifest, old: DatasetManifest, names: DatasetNames
) -> tuple[Fingerprint, ...]:
    """The answer of `replaced_by` for a manifest that ``new`` was appended to. All shards of that
    stay, and so none of them is looked at."""
    known = patterns(names, [old.shard_template])
    gone = sorted(old.parts() - new.parts())
    return tuple(Fingerprint(name) for name in gone if tag_in(name, known) is not None)


def dispose(
    folder: Folder, names: DatasetNames, doomed: Sequence[Fingerprint], current: DatasetManifest
) -> None:
    """Delete what a landed manifest has doomed, except objects of others, and objects in use.
    ManifestError: another manifest in the folder can't be read, and nothing is
    deleted."""
    # An append replaces objects of the index. The manifests themselves say whether one is still
    # named, and no list is read.
    indexes = {one.name for one in doomed if names.is_index(one.name)}
    if indexes:
        stays = current.parts() | current.replaced_names()
        stays |= named_by_neighbours(folder, names, shards=False)
        folder.delete(sorted(indexes - stays))
    doomed = [one for one in doomed if one.name not in indexes]
    if not doomed:
        return
    hidden = all(one.name.startswith("_") for one in doomed)
    stays = named_now(folder, names, current, hidden=hidden)
    stays |= current.replaced_names() | named_by_neighbours(folder, names, hidden=hidden)
    own = [one for one in doomed if one.name not in stays and names.may_own(one.name)]
    folder.delete(one.name for one in own if is_proof(one.name))
    delete_plain(folder, (one for one in own if not is_proof(one.name)))


def delete_plain(folder: Folder, shards: Iterable[Fingerprint]) -> None:
    """Delete shards with plain names, if the objects are really these. Many at once."""

    def delete(shard: Fingerprint) -> None:
        found = held(folder, shard)
        if found is not None:
            folder.delete_version(shard.name, found.etag)

    list(mapped(delete, shards, LOOKS_AT_ONCE))


def is_proof(name: str) -> bool:
    """Whether the name of an object proves whose it is. One that was set aside may have been a
    stranger's, who had replaced a shard with a plain name."""
    return name.startswith("_") and facts_of(name) is None


def held(folder: Folder, shard: Fingerprint) -> ObjectInfo | None:
    """The stored object, if it has this fingerprint. A name that `is_proof` needs none."""
    path = folder.join(shard.name)
    try:
        info = folder.store.info(path)
        if is_proof(shard.name):
            return info
        if shard.etag is not None:
            return info if shard.etag == info.etag else None
        if shard.nbytes is None or info.size != shard.nbytes:
            return None
        crc = (
            stored_crc32c(folder.store, path, shard.nbytes) if info.crc32c is None else info.crc32c
        )
    except (FileNotFoundError, IsADirectoryError):
        return None
    return info if crc == shard.crc32c else None


def delete_own(
    folder: Folder, names: DatasetNames, generation: str, *, kept: Container[str] = ()
) -> None:
    """End the uploads of this generation, which are those of tasks that were killed or come too
    late, and delete its objects but for those ``kept``. Its claim stays."""

    def is_own(upload: PendingUpload) -> bool:
        name = upload.path.rpartition("/")[2]
        if folder.join(name) != upload.path or name == names.claim(generation):
            return False
        return names.tag_of(name) == generation

    uploads = folder.store.pending_uploads(folder.path, deep=False)
    folder.store.abort_uploads(filter(is_own, uploads))
    own = own_objects(folder, names, generation)
    folder.delete(name for name in own if name not in kept)


def own_objects(folder: Folder, names: DatasetNames, generation: str) -> list[str]:
    """The objects in the folder with this generation's tag, except its claim."""
    claim = names.claim(generation)
    return [name for name in folder.names() if names.tag_of(name) == generation and name != claim]
