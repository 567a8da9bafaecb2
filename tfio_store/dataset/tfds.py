"""Folders that TensorFlow Datasets wrote: their splits, shards and features."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tfio_store.dataset.checks import check_name
from tfio_store.dataset.folder import Folder, Stored
from tfio_store.dataset.model import DatasetPart
from tfio_store.errors import ManifestError
from tfio_store.example.feature import Feature
from tfio_store.storage import Storage, Store

DESCRIPTION_BYTES = 64 << 20
"""The description of millions of shards has less."""

_MOST_TEMPLATE, _MOST_NAME, _MOST_SHARD_NAME = 4096, 255, 1024
"""As long as a path, a name in a folder, and a key of a bucket can be."""

_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


def tfds_shards(store: Store, path: str) -> list[tuple[str, int]] | None:
    """Path and record count of every shard of a split; None if TFDS wrote no such folder.

    ManifestError for a description that is none, or that points out of the folder. ValueError if
    the split is not named, or there is no split of that name.
    """
    folder, _, split = path.rpartition("/")
    for where, wanted in ((path, None), (folder, split)):
        stored = _description(store, where) if where else None
        if stored is not None:
            found = _described(store, where, stored[0])
            if wanted is not None and wanted not in found:
                wanted = store.url(path).rpartition("/")[2]  # a URL may have a signature
            return [(f"{where}/{name}", n) for name, n in _chosen(found, wanted, store.url(where))]
    return None


def tfds_split(store: Store, path: str) -> str | None:
    """The name of a folder's only split; None if TFDS wrote no such folder. Raises as
    `tfds_shards`."""
    stored = _description(store, path)
    if stored is None:
        return None
    found = _described(store, path, stored[0])
    _chosen(found, None, store.url(path))
    return next(iter(found))


def _description(store: Store, folder: str) -> Stored:
    try:
        return Folder(store, folder).read("dataset_info.json", most=DESCRIPTION_BYTES)
    except PermissionError as error:  # about a file that the user does not know of
        words = "the folder can't be read; check its permissions or your credentials"
        said = f"{words} ({error.strerror or error})"
        raise PermissionError(error.errno, said, store.url(folder)) from error


def _described(store: Store, folder: str, data: bytes) -> dict[str, list[tuple[str, int]]]:
    try:
        info = json.loads(data)
        return {_name_of(split): list(_shards(info, split)) for split in info["splits"]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ManifestError(
            f"{store.url(folder)}/dataset_info.json: does not describe TFRecord shards: {error!r}"
        ) from error


def _name_of(split: dict[str, Any]) -> str:
    """A split's name, which is a part of names of files."""
    name = check_name(split["name"])
    if "/" in name:
        raise ValueError(f"{name!r} is no name of a split")
    return name


def _chosen(
    splits: dict[str, list[tuple[str, int]]], wanted: str | None, url: str
) -> list[tuple[str, int]]:
    if wanted is None and len(splits) == 1:
        return next(iter(splits.values()))
    if wanted in splits:
        return splits[wanted]
    names = ", ".join(f"{url}/{name}" for name in splits)
    what = "holds several splits" if wanted is None else f"has no split {wanted!r}"
    raise ValueError(f"{url}: {what}; name one of {names}")


def _shards(info: dict[str, Any], split: dict[str, Any]) -> Iterator[tuple[str, int]]:
    lengths = [int(n) for n in split["shardLengths"]]
    template = split.get("filepathTemplate") or _TEMPLATE
    fixed = {
        "{DATASET}": info["name"],
        "{SPLIT}": split["name"],
        "{FILEFORMAT}": info.get("fileFormat", "tfrecord"),
    }
    # Names in templates multiply: a short description could tell gigabytes of names
    _check_length("filepathTemplate", template, _MOST_TEMPLATE)
    for placeholder, value in fixed.items():
        _check_length(placeholder, value, _MOST_NAME)
    for i, records in enumerate(lengths):
        name = template.replace("{SHARD_X_OF_Y}", f"{i:05d}-of-{len(lengths):05d}")
        # replaced, not formatted: the template comes from a file
        for placeholder, value in fixed.items():
            name = name.replace(placeholder, value)
            _check_length("a shard's name", name, _MOST_SHARD_NAME)
        yield check_name(name), records


def _check_length(what: str, text: str, most: int) -> None:
    if len(text) > most:
        raise ValueError(f"{what} has {len(text)} characters, and at most {most} can be read")


# The features of a folder's Examples, as TensorFlow Datasets describes them.
#
# ``features.json`` lies beside the shards, and the names of the classes of a feature in
# ``FEATURE.labels.txt``. Kinds of features that are not known here are left out: records show
# enough to read them.


_DTYPES = {"string": "bytes"}
"""Where TensorFlow has another name."""


def tfds_features(source: object, storage: Storage | None) -> dict[str, Feature]:
    """The features of a folder that TFDS wrote, of one of its splits, or of its files. Empty for
    any other source.

    Features of a sequence vary in length. ManifestError for a ``features.json`` that is no JSON.
    """
    while isinstance(source, DatasetPart):
        storage = storage or source._reached()
        source = source._whole()
    if not isinstance(source, str | os.PathLike):
        return {}
    store, path = (storage or Storage()).open(source)
    path = path.rstrip("/")
    for where in (path, path.rpartition("/")[0]):
        if not where or any(c in where for c in "*?["):
            continue
        folder = Folder(store, where)
        try:
            stored = folder.read("features.json", most=DESCRIPTION_BYTES)
        except NotADirectoryError:
            continue
        if stored is not None:
            found = _parsed(folder, stored[0])
            return dict(_features(folder, found, (), single=True))
    return {}


def _parsed(folder: Folder, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{folder.url('features.json')}: is no JSON: {error}") from error


def _features(
    folder: Folder, node: Any, path: tuple[str, ...], *, single: bool
) -> Iterator[tuple[str, Feature]]:
    """The features below a node, by their names in Examples. What is not ``single`` is the steps of
    a sequence: their number varies."""
    inner = at_keys(node, "featuresDict", "features")
    if isinstance(inner, Mapping) and len(path) < 50:  # deep nodes must not end the stack
        for key, child in inner.items():
            yield from _features(folder, child, (*path, key), single=single)
        return
    step = at_keys(node, "sequence", "feature")
    if isinstance(step, Mapping) and "sequence" not in step:
        yield from _features(folder, step, path, single=False)
        return
    name = "/".join(path)
    try:
        name.encode()  # JSON has strings that are no text
        found = _feature(folder, node, path)
        if found is not None and not single:
            steps = () if found.ragged else found.shape
            found = replace(found, shape=(None, *steps))
    except (TypeError, ValueError, OverflowError):
        return  # of a dtype or shape that no feature has
    if found is not None:
        yield name, found


def _feature(folder: Folder, node: Any, path: tuple[str, ...]) -> Feature | None:
    """One value of the node."""
    if at_keys(node, "classLabel") is not None:
        names = _names(folder, path)
        return Feature.class_label(names) if names else None
    if at_keys(node, "text") is not None:
        return Feature.text()
    image = at_keys(node, "image")
    if isinstance(image, Mapping):
        # Floats are images of other numbers: four bytes of each are the channels of one pixel.
        plain = at_keys(image, "dtype") in (None, "uint8", "uint16")
        return Feature.image(at_keys(image, "encodingFormat") or None) if plain else None
    tensor = at_keys(node, "tensor")
    if not isinstance(tensor, Mapping) or tensor.get("encoding", "none") != "none":
        return None
    dtype = str(tensor.get("dtype"))
    return Feature(_DTYPES.get(dtype, dtype), shape_of(tensor))


def _names(folder: Folder, path: tuple[str, ...]) -> list[str]:
    """The names of classes, a line each. Without a file only their number is known."""
    stored = folder.read("-".join(key.replace("/", ".") for key in path) + ".labels.txt")
    lines = [] if stored is None else stored[0].decode().split("\n")
    return [line.strip() for line in lines if line.strip()]


def shape_of(tensor: Mapping[str, Any]) -> tuple[int | None, ...]:
    """The shape that a feature's description tells; None for lengths that vary."""
    dims = at_keys(tensor, "shape", "dimensions") or []
    return tuple(int(dim) if int(dim) >= 0 else None for dim in dims)


def at_keys(node: Any, *keys: str) -> Any:
    """The value under keys of nested mappings; None where there is none."""
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
