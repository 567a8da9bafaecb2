"""What a committed manifest tells of shards, also of those that were named as files beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfio_store.dataset.folder import Folder
from tfio_store.dataset.listed_shards import ListedShards
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.model import Dataset, Shard
from tfio_store.dataset.names import manifest_name, split_url
from tfio_store.dataset.paged_shards import PagedShards
from tfio_store.errors import ManifestError
from tfio_store.records.warning import warn

__all__ = ["committed_shards", "with_known_blocks"]

_SHARD_NAME = re.compile(r"(?P<dataset>.+?)-\d{5,}(?:-of-\d{5,})?\.tfrecord")


def committed_shards(folder: Folder, manifest: DatasetManifest) -> Sequence[Shard]:
    """What a manifest and its block tables tell of each shard. Of a long list, it is read when
    somebody asks."""
    if isinstance(manifest.shards, PagedShards):
        return ListedShards(folder, manifest.compression, manifest.shards)
    return [
        Shard.at(
            folder.store,
            folder.join(info.name),
            info.nbytes,
            compression=manifest.compression,
            records=info.records,
            blocks=info.blocks,
            crc32c=info.crc32c,
        )
        for info in manifest.shards
    ]


def with_known_blocks(dataset: Dataset, *, by_pattern: bool = False) -> Dataset:
    """The dataset with the blocks of shards that were named as files, where a manifest beside them
    knows.

    ``train-00000-of-00016.tfrecord`` belongs to a dataset ``train``, if there is one: that is one
    question for each dataset, and its answer makes compressed shards seekable and countable. A
    manifest that is not to be trusted is passed by with a warning, since nobody named it. So is one
    that names other shards than those that were found ``by_pattern``.
    """
    if isinstance(dataset.shards, ListedShards):
        return dataset  # a manifest tells of all of them
    named: dict[tuple[str, str], list[int]] = {}
    for i, shard in enumerate(dataset.shards):
        of = _dataset_of(shard)
        if of is not None and shard.blocks is None:
            named.setdefault(of, []).append(i)
    found: dict[int, Shard] = {}
    for (_, stem), numbers in named.items():
        known = _shards_beside(dataset, numbers, stem)
        if by_pattern and known:
            _warn_of_others(dataset, numbers, known, stem)
        for i in numbers:
            shard = dataset.shards[i]
            committed = known.get(shard.url)
            if committed is not None and _is_that(shard, committed):
                found[i] = committed.known(version=shard.version)
    return dataset.with_shards(found) if found else dataset


def _warn_of_others(
    dataset: Dataset, files: Sequence[int], known: dict[str, Shard], stem: str
) -> None:
    """Warn if a pattern has found files that an overwrite replaced, or not those that an append
    added, whose names a pattern passes by."""
    found = {dataset.shards[i].url for i in files}
    old = found - known.keys()
    hidden = [url for url in known.keys() - found if split_url(url)[1].startswith("_")]
    if not old and not hidden:
        return
    first = dataset.shards[files[0]].url
    name = f"{first.removesuffix(split_url(first)[1])}{stem}"
    warn(
        f"the pattern finds {len(old)} files that are no part of the dataset {name} any more, and "
        f"passes {len(hidden)} of its files by; pass {name!r} to read what is committed"
    )


def _dataset_of(shard: Shard) -> tuple[str, str] | None:
    """The folder and the name of the dataset that a file may belong to."""
    name = split_url(shard.url)[1]
    match = _SHARD_NAME.fullmatch(name)
    return (shard.address.rpartition(name)[0], match["dataset"]) if match else None


def _shards_beside(dataset: Dataset, files: Sequence[int], stem: str) -> dict[str, Shard]:
    """The shards of the dataset of that name in the folder of these files, by URL. Of a long list,
    only those that are these files."""
    store, path = dataset.open(files[0])
    folder = Folder(store, split_url(path)[0])
    try:
        found = folder.manifest(manifest_name(stem))
        shards = committed_shards(folder, found.manifest) if found and found.manifest else []
        if isinstance(shards, ListedShards):
            shards = shards.named(split_url(dataset.shards[i].url)[1] for i in files)
    except (ManifestError, FileNotFoundError) as error:
        warn(f"read without its manifest: {error}")
        return {}
    return {shard.url: shard for shard in shards}


def _is_that(shard: Shard, committed: Shard) -> bool:
    """Whether a file is what the manifest means, as far as size and compression tell."""
    return shard.nbytes == committed.nbytes and shard.compression in ("auto", committed.compression)
