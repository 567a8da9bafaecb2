"""Features of folders that TensorFlow Datasets wrote: classes, images, text and dtypes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tfio_store import Feature

PNG = b"\x89PNG\r\n\x1a\n"
ROOM = "tensorflow_datasets.core.features."


def node(python: str, **content: Any) -> dict[str, Any]:
    return {"pythonClassName": ROOM + python, **content}


def tensor(dtype: str, *dims: str, **more: Any) -> dict[str, Any]:
    shape = {"dimensions": list(dims)} if dims else {}
    return node("tensor_feature.Tensor", tensor={"shape": shape, "dtype": dtype, **more})


def of(**features: Any) -> dict[str, Any]:
    return node("features_dict.FeaturesDict", featuresDict={"features": features})


def image(**more: Any) -> dict[str, Any]:
    shape = {"dimensions": ["28", "28", "1"]}
    return node("image_feature.Image", image={"shape": shape, "dtype": "uint8", **more})


LABEL = node("class_label_feature.ClassLabel", classLabel={"numClasses": "2"})
TEXT = node("text_feature.Text", text={})
STEPS = {"length": "-1"}

FEATURES = of(
    label=LABEL,
    unnamed=LABEL,
    photo=image(encodingFormat="png"),
    any=image(),
    depth=image(encodingFormat="png") | {"image": {"dtype": "float32", "encodingFormat": "png"}},
    text=TEXT,
    flag=node("scalar.Scalar", tensor={"shape": {}, "dtype": "bool", "encoding": "none"}),
    matrix=tensor("float32", "2", "3", encoding="none"),
    free=tensor("int32", "-1"),
    packed=tensor("float32", "2", encoding="zlib"),
    key=tensor("string"),
    large=tensor("uint64"),
    absent=tensor("int64"),
    other=tensor("int64"),
    objects=node(
        "sequence_feature.Sequence",
        sequence={"feature": of(label=LABEL, id=tensor("int32")), **STEPS},
    ),
    audio=node("audio_feature.Audio", audio={"shape": {}, "dtype": "int64"}),
)

ROW: dict[str, Any] = {
    "label": 1,
    "unnamed": 0,
    "photo": PNG,
    "any": PNG,
    "depth": PNG,
    "text": "é",
    "flag": True,
    "matrix": np.arange(6, dtype=np.float32),
    "free": [1, 2],
    "packed": b"zip",
    "key": b"\xff",
    "large": 7,
    "other": 0.5,
    "objects/label": [1, 0, 1],
    "objects/id": [3, 4, 5],
    "audio": [1, 2, 3],
}

EXPECTED = {
    "label": Feature.class_label(["cat", "dog"]),
    "unnamed": Feature("int64"),
    "photo": Feature.image("png"),
    "any": Feature.image(),
    "depth": Feature("bytes"),
    "text": Feature("str"),
    "flag": Feature("bool"),
    "matrix": Feature("float32", (2, 3)),
    "free": Feature("int32", (None,)),
    "packed": Feature("bytes"),
    "key": Feature("bytes"),
    "large": Feature("uint64"),
    "other": Feature("float32"),
    "objects/label": Feature.class_label(["a", "b"], shape=(None,)),
    "objects/id": Feature("int32", (None,)),
    "audio": Feature("int64", (3,)),
}


ROWS = [ROW, {**ROW, "objects/label": [0], "objects/id": [1]}]


def put(place: Place, features: Any = FEATURES, rows: list[dict[str, Any]] = ROWS) -> str:
    """The folder's URL."""
    name = "ds-train.tfrecord-00000-of-00001"
    place.put(f"ds/1.0.0/{name}", framed([tfs.encode_example(row) for row in rows]))
    splits = [{"name": "train", "shardLengths": [str(len(rows))]}]
    info = json.dumps({"name": "ds", "fileFormat": "tfrecord", "splits": splits})
    place.put("ds/1.0.0/dataset_info.json", info.encode())
    data = features if isinstance(features, bytes) else json.dumps(features).encode()
    place.put("ds/1.0.0/features.json", data)
    place.put("ds/1.0.0/label.labels.txt", b"cat\ndog\n")
    place.put("ds/1.0.0/objects-label.labels.txt", b"a\n b \n\n")
    return place.url("ds/1.0.0")


@pytest.mark.parametrize("name", ["", "/train", "/ds-train.tfrecord-00000-of-00001", "/ds-*"])
def test_each_way_to_name_it(place: Place, name: str) -> None:
    options: dict[str, Any] = {"storage_options": place.storage_options}
    schema = tfs.infer_schema(put(place) + name, **options)
    assert dict(schema) == dict(sorted(EXPECTED.items()))


def test_what_is_read(tmp_path: Path) -> None:
    url = put(Place(str(tmp_path)))
    found = tfs.read_table(url, labels="names")
    assert found["label"].tolist() == ["dog", "dog"]
    assert found["objects/label"].tolist() == [["b", "a", "b"], ["a"]]
    assert found["matrix"].shape == (2, 2, 3)
    assert found["text"].tolist() == ["é", "é"]
    pytest.importorskip("pyarrow", exc_type=ImportError)
    table = tfs.iter_tables(url, columns=["label", "flag"]).read_all()
    assert table.to_pydict() == {"label": [1, 1], "flag": [True, True]}


@pytest.mark.parametrize(
    "features",
    [
        [],
        3,
        {"features": {}},
        of(label=3, text=[], photo={"image": 7}),
        of(label=tensor("int64", "x"), text=tensor("nothing"), photo=image(encodingFormat="jxl")),
        of(label={"tensor": {"shape": {"dimensions": 3}, "dtype": "int64"}}),
        of(label={"sequence": {"feature": {"sequence": {"feature": LABEL}}}}),
    ],
)
def test_what_tells_nothing(tmp_path: Path, features: Any) -> None:
    url = put(Place(str(tmp_path)), features)
    schema = tfs.infer_schema(url)
    assert schema["label"] == Feature("int64")
    assert schema["text"] == schema["photo"] == Feature("bytes")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json(tmp_path: Path, data: bytes) -> None:
    url = put(Place(str(tmp_path)), data)
    with pytest.raises(tfs.ManifestError, match=r"features\.json: is no JSON"):
        tfs.infer_schema(url)
    assert tfs.read_table(url, schema={"label": "int64"})["label"].tolist() == [1, 1]


def test_deep_nodes(tmp_path: Path) -> None:
    deep: Any = LABEL
    for _ in range(300):
        deep = of(x=deep)
    assert "label" in tfs.infer_schema(put(Place(str(tmp_path)), deep))


def sequence(inner: Any) -> dict[str, Any]:
    return node("sequence_feature.Sequence", sequence={"feature": inner, **STEPS})


def test_sequences_of_one_value_in_all_records_seen(tmp_path: Path) -> None:
    """Record 1000 is the first that `infer_schema` does not see."""
    features = of(
        label=sequence(LABEL),
        text=sequence(TEXT),
        photo=sequence(image(encodingFormat="png")),
        id=sequence(tensor("int32")),
        box=sequence(tensor("float32", "2")),
        free=tensor("float32", "-1", "3"),
    )
    rows = [
        {
            "label": [1] * count,
            "text": ["a"] * count,
            "photo": [PNG] * count,
            "id": [3] * count,
            "box": [0.5] * (2 * count),
            "free": [0.5] * (3 * count),
        }
        for count in [1] * 1000 + [2]
    ]
    url = put(Place(str(tmp_path)), features, rows)
    schema = tfs.infer_schema(url)
    assert dict(schema) == {
        "box": Feature("float32", (None, 2)),
        "free": Feature("float32", (None, 3)),
        "id": Feature("int32", (None,)),
        "label": Feature.class_label(["cat", "dog"], shape=(None,)),
        "photo": Feature.image("png", shape=(None,)),
        "text": Feature("str", (None,)),
    }
    last = tfs.decode_examples([tfs.encode_example(row) for row in rows], schema, labels="names")
    found = {name: last[name][-1].tolist() for name in ("label", "text", "id")}
    assert found == {"label": ["dog", "dog"], "text": ["a", "a"], "id": [3, 3]}
    assert last["box"][-1].shape == (2, 2)
    assert dict(tfs.read_table(url).schema) == dict(schema)


ODD = {
    "text": (TEXT, b"\xff", Feature("bytes")),
    "flag": (tensor("bool"), 2, Feature("int64")),
    "small": (tensor("int8"), 1 << 20, Feature("int64")),
    "triples": (tensor("int32", "-1", "3"), [1, 2], Feature("int64", (None,))),
    "list": (sequence(TEXT), [b"a", b"\xff"], Feature("bytes", (None,))),
}
RIGHT = {"text": "a", "flag": 1, "small": 1, "triples": [1, 2, 3], "list": ["a"]}


def test_records_that_show_another_thing_count(tmp_path: Path) -> None:
    """Each of the features has one value that is not as ``features.json`` says."""
    pytest.importorskip("pyarrow", exc_type=ImportError)
    odd = [RIGHT | {name: value} for name, (_, value, _) in ODD.items()]
    features = of(**{name: told for name, (told, _, _) in ODD.items()})
    url = put(Place(str(tmp_path)), features, [RIGHT, *odd])
    expected = dict(sorted((name, feature) for name, (_, _, feature) in ODD.items()))
    assert dict(tfs.infer_schema(url)) == expected
    found = tfs.read_table(url)
    assert dict(found.schema) == expected
    assert found["text"].tolist()[:2] == [b"a", b"\xff"]
    assert tfs.iter_tables(url).read_all()["flag"].to_pylist().count(2) == 1
    assert tfs.infer_schema(url, sample=1)["text"] == Feature("str")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    url = put(Place(str(tmp_path)), of(**{"\ud800": tensor("bool"), "label": LABEL}))
    assert tfs.infer_schema(url)["label"] == EXPECTED["label"]


@pytest.mark.parametrize(
    ("info", "split"),
    [
        ({"name": "a" * 1_000_000}, {}),
        ({}, {"filepathTemplate": "{DATASET}" * 1_000_000}),
        ({"name": "a" * 255}, {"filepathTemplate": "{DATASET}" * 400}),
        ({"name": "{SPLIT}" * 36, "fileFormat": "b" * 255}, {"name": "{FILEFORMAT}" * 20}),
    ],
)
def test_names_that_multiply(info: dict[str, Any], split: dict[str, Any], tmp_path: Path) -> None:
    """A short description must not tell gigabytes of names."""
    splits = [{"name": "train", "shardLengths": ["1"], **split}]
    described = {"name": "a", "fileFormat": "tfrecord", "splits": splits, **info}
    (tmp_path / "dataset_info.json").write_text(json.dumps(described))
    with pytest.raises(tfs.ManifestError, match=r"dataset_info\.json.* at most \d+ can be read"):
        tfs.open(tmp_path)
