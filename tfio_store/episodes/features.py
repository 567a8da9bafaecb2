"""The features of a folder that TensorFlow Datasets (TFDS) lays out, as its ``features.json`` says.

A record is a flat Example. The name of a leaf of the nested features is its path, joined by
slashes: ``steps/observation/image``. The steps of an episode are a sequence, and so the values of
a leaf below ``steps`` lie end to end, one step after another. A sequence within a sequence has two
or more features: ``NAME/ragged_flat_values`` and ``NAME/ragged_row_lengths_0`` and so on. A tensor
with several unknown dimensions has ``NAME/value`` and ``NAME/shape``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfio_store.dataset.tfds import at_keys, shape_of
from tfio_store.errors import ManifestError
from tfio_store.example.feature import ClassLabel, Feature, Image
from tfio_store.example.schema import Schema
from tfio_store.records.texts import unknown

STEPS = "steps"
"""The feature that holds the steps of an episode."""

_DEEPEST = 50
_CLASSES = "tensorflow_datasets.core.features."
_IMAGE_DTYPES = ("uint8", "uint16", "float32")
_WIRES = {"f": "float32", "i": "int64", "u": "int64", "b": "int64"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One feature that holds values.

    ``kind`` is "tensor", "text", "image" or "label". ``shape`` is that of one value. ``levels`` are
    the lengths of the sequences that it lies in, from the outermost, None where they vary; of a
    leaf of the steps the first one is the steps. ``encoding`` is how bytes hold a tensor ("bytes",
    "zlib") or an image ("jpeg", "png"), if it is known.
    """

    path: tuple[str, ...]
    kind: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    levels: tuple[int | None, ...] = ()
    encoding: str | None = None
    names: tuple[str, ...] = ()
    classes: int = 0

    @property
    def name(self) -> str:
        """Its name: its path below the root."""
        return "/".join(self.path)

    @property
    def names_file(self) -> str:
        """The file that holds the names of its classes."""
        return "-".join(key.replace("/", ".") for key in self.path) + ".labels.txt"

    @property
    def of_steps(self) -> bool:
        """Whether each step has a value of it."""
        return self.path[0] == STEPS and bool(self.levels)

    @property
    def within(self) -> tuple[str, ...]:
        """The path within a step, or within the episode."""
        return self.path[1:] if self.of_steps else self.path

    @property
    def short(self) -> str:
        """Its name for users: the path within a step, or within the episode."""
        return "/".join(self.within)

    @property
    def wire(self) -> str:
        """The kind of list that a record holds it as: "bytes", "float32" or "int64"."""
        if self.kind in ("text", "image") or self.dtype == "bytes" or self.encoding is not None:
            return "bytes"
        return "int64" if self.kind == "label" else _WIRES[np.dtype(self.dtype).kind]

    @property
    def width(self) -> int | None:
        """How many values of the record one value of it takes. None where that varies."""
        if self.wire == "bytes" and self.dtype != "bytes":
            return 1
        return None if None in self.shape else math.prod(n or 0 for n in self.shape)

    @property
    def dynamic(self) -> bool:
        """Whether the record has the shape of each value."""
        return self.kind == "tensor" and self.shape.count(None) > 1

    @property
    def key(self) -> str:
        """The feature of the record that holds the values."""
        name = f"{self.name}/value" if self.dynamic else self.name
        return name if len(self.levels) < 2 else f"{name}/ragged_flat_values"

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The features of the record that hold the lengths of rows, from the outermost."""
        return tuple(f"{self.name}/ragged_row_lengths_{i}" for i in range(len(self.levels) - 1))

    @property
    def shape_key(self) -> str | None:
        """The feature of the record that holds the shapes, of a dynamic one."""
        return f"{self.name}/shape" if self.dynamic else None

    @property
    def keys(self) -> tuple[str, ...]:
        """All features of the record that belong to it."""
        shapes = () if self.shape_key is None else (self.shape_key,)
        return (self.key, *self.row_keys, *shapes)


@dataclass(frozen=True, slots=True)
class Tree:
    """All features of a dataset. ``unknown`` are the names of those whose kind is not known here:
    they are not read."""

    leaves: tuple[Leaf, ...]
    document: Mapping[str, Any]
    unknown: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: bytes, *, url: str) -> Tree:
        """Read ``features.json``. ManifestError for what is none."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ManifestError(f"{url}: is no JSON: {error}") from error
        if not isinstance(at_keys(document, "featuresDict", "features"), Mapping):
            raise ManifestError(f"{url}: does not describe a dict of features")
        unknown: list[str] = []
        try:
            leaves = tuple(_leaves(document, (), (), unknown))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise ManifestError(f"{url}: a feature cannot be read: {error}") from error
        return cls(leaves, document, tuple(unknown))

    @classmethod
    def of(cls, features: object) -> Tree:
        """Read what a writer was given: a nested mapping of features, or the tree of another
        dataset. TypeError or ValueError for anything else."""
        if isinstance(features, Tree):
            return features
        if not isinstance(features, Mapping) or not features:
            raise TypeError(
                "features= takes a nested mapping of name to Feature, dtype or (dtype, shape), not "
                f"{features!r}"
            )
        made = cls.from_json(json.dumps(_dict_node(features, ())).encode(), url="features=")
        return made.with_names(dict(_class_names(features, ())))

    def to_json(self) -> bytes:
        """The text of ``features.json``."""
        return json.dumps(self.document, indent=4, sort_keys=True).encode()

    @property
    def steps(self) -> tuple[Leaf, ...]:
        """The leaves of the steps."""
        return tuple(leaf for leaf in self.leaves if leaf.of_steps)

    @property
    def context(self) -> tuple[Leaf, ...]:
        """The leaves of the episode itself."""
        return tuple(leaf for leaf in self.leaves if not leaf.of_steps)

    def select(self, keys: Iterable[str] | None) -> Tree:
        """The tree of some leaves, each named by its path (within a step, or whole), or by that of
        a dict around it. ValueError that lists the names for one that there is not."""
        if keys is None:
            return self
        if isinstance(keys, str):
            raise TypeError(f"keys= takes a list of names, not {keys!r}")
        wanted: set[str] = set()
        for key in keys:
            found = [leaf.name for leaf in self.leaves if _is_named(leaf, key)]
            if not found:
                said = unknown("feature", key, [leaf.short for leaf in self.leaves])
                raise ValueError(f"keys= names {key!r}: {said}")
            wanted.update(found)
        return Tree(tuple(leaf for leaf in self.leaves if leaf.name in wanted), self.document)

    def with_names(self, names: Mapping[str, tuple[str, ...]]) -> Tree:
        """The tree, whose labels have the names of their classes."""
        leaves = tuple(replace(leaf, names=names.get(leaf.name, ())) for leaf in self.leaves)
        return Tree(leaves, self.document, self.unknown)


def nested(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """A nested dict of values by path."""
    root: dict[str, Any] = {}
    for path, value in values.items():
        node = root
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    return root


def _is_named(leaf: Leaf, key: object) -> bool:
    if not isinstance(key, str):
        return False
    return any(path == key or path.startswith(f"{key}/") for path in (leaf.short, leaf.name))


def _leaves(
    node: Any, path: tuple[str, ...], levels: tuple[int | None, ...], unknown: list[str]
) -> Iterator[Leaf]:
    if len(path) + len(levels) > _DEEPEST:
        raise ValueError(f"{'/'.join(path[:3])}… lies deeper than {_DEEPEST} levels")
    inner = at_keys(node, "featuresDict", "features")
    if isinstance(inner, Mapping):
        for key, child in sorted(inner.items()):
            key.encode()  # JSON has strings that are no text
            yield from _leaves(child, (*path, key), levels, unknown)
        return
    video = at_keys(node, "video")
    sequence = at_keys(node, "sequence") or at_keys(video, "sequence") or video
    if isinstance(sequence, Mapping) and "feature" in sequence:
        length = int(sequence.get("length", -1))
        more = (*levels, None if length < 0 else length)
        yield from _leaves(sequence["feature"], path, more, unknown)
        return
    found = _leaf(node, path, levels)
    if found is None:
        unknown.append("/".join(path))
    else:
        yield found


def _leaf(node: Any, path: tuple[str, ...], levels: tuple[int | None, ...]) -> Leaf | None:
    if at_keys(node, "text") is not None:
        return Leaf(path, "text", "str", (), levels)
    label = at_keys(node, "classLabel")
    if isinstance(label, Mapping):
        return Leaf(path, "label", "int64", (), levels, classes=int(label.get("numClasses", 0)))
    image = at_keys(node, "image") or at_keys(node, "labeledImage")
    if isinstance(image, Mapping):
        dtype = str(image.get("dtype") or "uint8")
        if dtype not in _IMAGE_DTYPES:
            return None
        shape = shape_of(image) or (None, None, 3)
        encoding = str(image.get("encodingFormat") or "")
        return Leaf(path, "image", dtype, shape, levels, encoding or None)
    if at_keys(node, "boundingBox") is not None:
        return Leaf(path, "tensor", "float32", (4,), levels)
    tensor = at_keys(node, "tensor")
    if not isinstance(tensor, Mapping):
        return None
    encoding = str(tensor.get("encoding", "none")).lower()
    if encoding not in ("none", "bytes", "zlib"):
        return None
    dtype = str(tensor.get("dtype"))
    if dtype in ("string", "object", "str"):
        dtype = "bytes"
    elif not dtype.isalnum():  # NumPy runs its own parser over other texts
        raise ValueError(f"{'/'.join(path)} has the dtype {dtype!r}")
    elif np.dtype(dtype).kind not in _WIRES:
        return None
    shape = shape_of(tensor)
    if any(size is not None and size > 1 << 40 for size in shape):
        raise ValueError(f"{'/'.join(path)} has the shape {shape}")
    leaf = Leaf(path, "tensor", dtype, shape, levels, None if encoding == "none" else encoding)
    # TFDS writes neither of these itself: nothing separates the steps.
    apart = leaf.width is not None or leaf.encoding is not None or not levels
    return leaf if apart and not (leaf.dynamic and leaf.encoding is None) else None


def _dict_node(features: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if len(path) > _DEEPEST:
        raise ValueError(f"features= lies deeper than {_DEEPEST} levels")
    for key in features:
        if not isinstance(key, str) or not key or "/" in key:
            raise ValueError(f"features= names {key!r}; a name is a text without slashes")
    inner = {key: _node(of, (*path, key)) for key, of in features.items()}
    return {"featuresDict": {"features": inner}, **_class("features_dict.FeaturesDict")}


def _class_names(of: Any, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of the classes of each label."""
    if isinstance(of, Mapping):
        for key, inner in of.items():
            yield from _class_names(inner, (*path, key))
    elif isinstance(of, Feature) and isinstance(of.kind, ClassLabel):
        yield "/".join(path), of.kind.names


def _node(of: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(of, Mapping):
        found = _dict_node(of, path)
        if path == (STEPS,):
            sequence = {"feature": found, "length": "-1"}
            return {"sequence": sequence, **_class("dataset_feature.Dataset")}
        return found
    name = "/".join(path)
    feature = of if isinstance(of, Feature) else Schema.of({name: of}, argument="features")[name]
    if feature.sequence or feature.nullable or feature.default is not None:
        raise ValueError(f"features=: {name} is nullable, a feature list or has a default")
    if not feature.ragged:
        return _value_node(feature, feature.shape)
    inner = _value_node(feature, feature.shape[1:])
    sequence = {"feature": inner, "length": "-1"}
    return {"sequence": sequence, **_class("sequence_feature.Sequence")}


def _value_node(feature: Feature, shape: tuple[int | None, ...]) -> dict[str, Any]:
    if isinstance(feature.kind, Image) and not shape:
        image = {"dtype": "uint8", "shape": _dims((None, None, 3))}
        if feature.kind.encoding in ("jpeg", "png"):
            image["encodingFormat"] = feature.kind.encoding
        return {"image": image, **_class("image_feature.Image")}
    if isinstance(feature.kind, ClassLabel) and not shape:
        label = {"numClasses": str(len(feature.kind.names))}
        return {"classLabel": label, **_class("class_label_feature.ClassLabel")}
    if feature.dtype == "str" and not shape:
        return {"text": {}, **_class("text_feature.Text")}
    dtype = "string" if feature.dtype in ("bytes", "str") else feature.dtype
    encoding = "bytes" if feature.raw else "none"
    tensor = {"dtype": dtype, "encoding": encoding, "shape": _dims(shape)}
    return {"tensor": tensor, **_class("tensor_feature.Tensor")}


def _dims(shape: tuple[int | None, ...]) -> dict[str, Any]:
    return {"dimensions": [str(-1 if n is None else n) for n in shape]} if shape else {}


def _class(name: str) -> dict[str, str]:
    return {"pythonClassName": _CLASSES + name}
