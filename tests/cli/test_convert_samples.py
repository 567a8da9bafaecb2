"""`convert` of WebDatasets, folders of images and NumPy's arrays, against tarfile and numpy."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import tfio_store as tfs
from tests.cli.conftest import Run
from tests.cli.test_convert import options_of
from tests.servers.place import Place

JPEG = b"\xff\xd8\xff" + bytes(40)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def tar_of(members: dict[str, bytes], mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as tar:  # type: ignore[call-overload]
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def samples(first: int, count: int) -> dict[str, bytes]:
    made = {}
    for i in range(first, first + count):
        made[f"train/{i:04d}.jpg"] = JPEG + bytes([i])
        made[f"train/{i:04d}.cls"] = b"%d" % (i % 3)
        made[f"train/{i:04d}.caption.txt"] = f"größe {i}".encode()
    return made


def rows(url: str, place: Place) -> list[dict[str, Any]]:
    table = tfs.read_table(url, storage_options=place.storage_options)
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


@pytest.mark.parametrize("packed", ["tar", "tar.gz"])
def test_a_webdataset(run: Run, place: Place, packed: str) -> None:
    mode = "w:gz" if packed == "tar.gz" else "w"
    place.put(f"a-0.{packed}", tar_of(samples(0, 20), mode))
    place.put(f"a-1.{packed}", tar_of(samples(20, 5), mode))
    target = place.url("train")
    answer = run("convert", place.url(f"a-*.{packed}"), target, *options_of(place))
    assert answer.out == f"{target}: 25 rows as tfrecord\n"
    found = rows(target, place)
    assert [row["__key__"] for row in found] == [f"train/{i:04d}" for i in range(25)]
    assert [row["cls"] for row in found] == [i % 3 for i in range(25)]
    assert [row["jpg"] for row in found] == [JPEG + bytes([i]) for i in range(25)]
    assert found[3]["caption.txt"] == "größe 3"


def test_a_webdataset_there_and_back(run: Run, place: Place) -> None:
    options = options_of(place)
    place.put("a.tar", tar_of(samples(0, 20)))
    assert run("convert", place.url("a.tar"), place.url("t"), *options).code == 0
    assert run("convert", place.url("t"), place.url("b.tar"), *options).code == 0
    with tarfile.open(fileobj=io.BytesIO(place.get("b.tar"))) as tar:
        files = {each.name: tar.extractfile(each) for each in tar}
        assert {name: file.read() for name, file in files.items() if file} == samples(0, 20)


def test_features_of_all_kinds_become_what_webdataset_decodes(run: Run, tmp_path: Path) -> None:
    url, target = str(tmp_path / "t"), tmp_path / "x.tar.gz"
    tfs.write_table(
        {"label": [7], "score": [0.5], "ids": [[1, 2]], "name": ["ada"], "raw": [b"\xff"]}, url
    )
    assert run("convert", url, target, "--json").document["target_format"] == "webdataset"
    with tarfile.open(target, "r:gz") as tar:
        found = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    key = "000000000"
    assert found.pop(f"{key}.score.json") == b"0.5"
    assert json.loads(found.pop(f"{key}.ids.json")) == [1, 2]
    assert found == {
        f"{key}.label.cls": b"7", f"{key}.name.txt": b"ada", f"{key}.raw": b"\xff",
    }  # fmt: skip


def test_samples_that_lack_a_part(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    url = place.put("a.tar", tar_of({"a.x": b"1", "a.y": b"2", "b.x": b"3", "c.y": b"4"}))
    assert run("convert", url, place.url("t"), "-c", "x").code == 0
    assert run("cat", place.url("t")).lines == [{"x": "1"}, {"x": "3"}, {"x": None}]
    assert run("convert", url, place.url("u")).code == 0
    assert run("cat", place.url("u"), "-c", "x,y").lines[2] == {"x": None, "y": "4"}


def test_what_is_no_webdataset(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    whole = tar_of(samples(0, 3))
    for data, text in (
        (b"no tar file", "cannot be read as a tar file"),
        (whole[:1000], "cannot be read as a tar file"),
        (tar_of({"a.cls": b"three"}), "a.cls: holds no number, as its name says"),
        (tar_of({"a.txt": b"\xff"}), "a.txt: holds no UTF-8 text, as its name says"),
    ):
        url = place.put("a.tar", data)
        answer = run("convert", url, place.url("t"))
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert text in answer.err
        assert url in answer.err
    twice = io.BytesIO()
    with tarfile.open(fileobj=twice, mode="w") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("a.x"))
    url = place.put("a.tar", twice.getvalue())
    assert "sample 'a' has two parts 'x'" in run("convert", url, place.url("t")).err
    assert place.names() == ["a.tar"]


def test_members_that_are_no_parts(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    url = place.put("a.tar", tar_of({"a.x": b"1", "README": b"about", "__meta__.json": b"{}"}))
    answer = run("convert", url, place.url("t"))
    assert answer.code == 0
    assert answer.err == (
        f"tfio-store: warning: {url}: 2 members are no parts of samples, and are left out\n"
    )


def test_keys_that_name_no_file(run: Run, tmp_path: Path) -> None:
    for keys in (["a.b"], ["same", "same"]):
        url = str(tmp_path / keys[0])
        tfs.write_table({"__key__": keys, "x": [1] * len(keys)}, url)
        answer = run("convert", url, tmp_path / "x.tar")
        assert answer.code == 2
        assert f"__key__ is {keys[0]!r}" in answer.err
        assert not (tmp_path / "x.tar").exists()


def sparse_tar(form: Literal[1, 2]) -> bytes:
    """A member whose size by its header is 1 GiB, and that stores nothing."""
    member = tarfile.TarInfo("a.bin")
    if form == tarfile.GNU_FORMAT:
        member.type = tarfile.GNUTYPE_SPARSE
        head = bytearray(member.tobuf(form))
        head[386:398] = head[483:495] = b"%011o\0" % (1 << 30)
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        return bytes(head) + bytes(1024)
    keys = {"major": "1", "minor": "0", "realsize": str(1 << 30), "name": "a.bin"}
    member.pax_headers = {f"GNU.sparse.{key}": value for key, value in keys.items()}
    member.size = 512
    return member.tobuf(form) + b"1\n0\n0\n".ljust(512, b"\0") + bytes(1024)


def long_name_tar() -> bytes:
    member = tarfile.TarInfo(f"{'a' * 100_000}.txt")
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (sparse_tar(1), "a.bin is sparse; pack it without tar's --sparse"),
        (sparse_tar(2), "a.bin is sparse; pack it without tar's --sparse"),
        (long_name_tar(), "a header has 100,005 bytes, and at most 65,536 are read"),
    ],
)
def test_tars_that_claim_more_than_they_hold(
    run: Run, tmp_path: Path, data: bytes, text: str
) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    answer = run("convert", tmp_path / "a.tar", tmp_path / "t")
    assert answer.code == 2
    assert f"{tmp_path / 'a.tar'}: cannot be read as a tar file: {text}" in answer.err


def test_a_sample_that_inflates_to_too_much(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfio_store.tables.formats.tar_samples._LARGEST", 20_000)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for part in ("a", "b"):
            member = tarfile.TarInfo(f"s.{part}")
            member.size = 10_000
            tar.addfile(member, io.BytesIO(bytes(10_000)))
    (tmp_path / "a.tar.gz").write_bytes(made.getvalue())
    answer = run("convert", tmp_path / "a.tar.gz", tmp_path / "t")
    assert answer.code == 2
    assert "sample 's' has more than 20,000 bytes" in answer.err
    with (
        tarfile.open(fileobj=io.BytesIO(made.getvalue())) as tar,
        tarfile.open(tmp_path / "b.tar", "w") as plain,
    ):
        for member in tar:
            plain.addfile(member, tar.extractfile(member))
    assert run("convert", tmp_path / "b.tar", tmp_path / "t").code == 0  # which has the bytes


def test_a_folder_of_images(run: Run, place: Place) -> None:
    for n, name in enumerate(("dog/b.png", "cat/a.jpg", "cat/deep/c.JPEG")):
        place.put(f"images/{name}", (PNG if name.endswith("png") else JPEG) + bytes([n]))
    place.put("images/readme.txt", b"about")
    place.put("images/.hidden/x.jpg", JPEG)
    url, target = place.url("images"), place.url("t")
    answer = run("convert", url, target, "--from", "images", *options_of(place))
    assert answer.code == 0
    assert "1 file of other kinds than images left out" in answer.err
    found = rows(target, place)
    assert [(row["path"], row["label"]) for row in found] == [
        ("cat/a.jpg", 0), ("cat/deep/c.JPEG", 0), ("dog/b.png", 1),
    ]  # fmt: skip
    assert [row["image"][-1] for row in found] == [1, 2, 0]
    schema = tfs.infer_schema(target, storage_options=place.storage_options)
    assert schema["label"] == tfs.Feature.class_label(["cat", "dog"])
    assert schema["image"] == tfs.Feature.image()


def test_images_without_classes_and_some_columns(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    place.put("images/a.jpg", JPEG)
    assert run("convert", tmp_path / "images", tmp_path / "t", "--from", "images").code == 0
    assert sorted(tfs.infer_schema(tmp_path / "t")) == ["image", "path"]
    some = ("--from", "images", "-c", "image")
    assert run("convert", tmp_path / "images", tmp_path / "u", *some).code == 0
    assert list(tfs.infer_schema(tmp_path / "u")) == ["image"]


def test_links_out_of_a_folder_of_images(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    place.put("images/cat/a.jpg", JPEG)
    place.put("secret/key.jpg", JPEG + b"secret")
    (tmp_path / "images/cat/b.jpg").symlink_to("a.jpg")
    (tmp_path / "linked").symlink_to("images")
    answer = run("convert", tmp_path / "linked", tmp_path / "t", "--from", "images")
    assert (answer.code, len(rows(str(tmp_path / "t"), place))) == (0, 2)
    for name, target, text in (
        ("cat/c.jpg", tmp_path / "secret/key.jpg", "leads out of the folder"),
        ("cat/c.jpg", "../../secret/key.jpg", "leads out of the folder"),
        ("dog", tmp_path / "secret", "is a link to a folder"),
    ):
        link = tmp_path / "images" / name
        link.symlink_to(target)
        answer = run("convert", tmp_path / "images", tmp_path / "u", "--from", "images")
        assert answer.code == 2
        assert str(link) in answer.err
        assert text in answer.err
        assert not (tmp_path / "_u.manifest.json").exists()
        link.unlink()


def test_folders_that_are_none_of_images(run: Run, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    place.put("empty/readme.txt", b"")
    place.put("mixed/a.jpg", JPEG)
    place.put("mixed/cat/a.jpg", JPEG)
    answer = run("convert", tmp_path / "empty", tmp_path / "t", "--from", "images")
    assert answer.code == 3
    assert "there is no image" in answer.err
    answer = run("convert", tmp_path / "mixed", tmp_path / "t", "--from", "images")
    assert answer.code == 2
    assert "and others are not" in answer.err
    one = ("--from", "images", "-c", "label")
    (tmp_path / "mixed/a.jpg").rename(tmp_path / "mixed/cat/b.jpg")
    assert run("convert", tmp_path / "mixed", tmp_path / "t", *one).code == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(run: Run, place: Place, order: Any) -> None:
    chance = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        "x": np.asarray(chance.normal(size=(500, 3, 2)).astype(np.float32), order=order),
        "y": chance.integers(-5, 5, 500),
        "wide": chance.normal(size=500),
    }
    made = io.BytesIO()
    np.savez_compressed(made, **arrays)
    url, target = place.put("a.npz", made.getvalue()), place.url("t")
    assert run("convert", url, target, "--exact", *options_of(place)).code == 0
    found = tfs.read_table(target, storage_options=place.storage_options)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_one_array_in_pieces(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfio_store.tables.formats.array_files._BYTES", 1000)
    array = np.arange(3000, dtype=np.int64).reshape(1000, 3)
    np.save(tmp_path / "a.npy", array)
    assert run("convert", tmp_path / "a.npy", tmp_path / "t").code == 0
    np.testing.assert_array_equal(tfs.read_table(tmp_path / "t")["array"], array)


def test_arrays_without_rows(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((0, 3)), y=np.zeros(0, np.int64))
    assert run("convert", tmp_path / "a.npz", tmp_path / "t").code == 0
    assert run("count", tmp_path / "t").out == "0\n"
    assert sorted(tfs.info(tmp_path / "t").schema or ()) == ["x", "y"]


def test_what_is_no_array(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "scalar.npy", np.array(3))
    np.savez(tmp_path / "lengths.npz", x=np.arange(3), y=np.arange(4))
    whole = io.BytesIO()
    np.save(whole, np.arange(1000))
    (tmp_path / "cut.npy").write_bytes(whole.getvalue()[:-9])
    (tmp_path / "no.npy").write_bytes(b"no array")
    (tmp_path / "no.npz").write_bytes(b"PK no archive")
    for name, text in (
        ("objects.npy", "Python objects are not read"),
        ("scalar.npy", "an array without a dimension has no rows"),
        ("lengths.npz", "x has 3, y has 4"),
        ("cut.npy", "it ends within an array"),
        ("no.npy", "cannot be read as numpy"),
        ("no.npz", "cannot be read as numpy"),
    ):
        answer = run("convert", tmp_path / name, tmp_path / "t")
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert text in answer.err
        assert str(tmp_path / name) in answer.err
    answer = run("convert", tmp_path / "lengths.npz", tmp_path / "t", "-c", "z")
    assert "no column 'z'; there are x, y" in answer.err
    answer = run("convert", tmp_path / "lengths.npz", tmp_path / "t", "-c", "x")
    assert answer.code == 0


def test_arrays_that_inflate_to_too_much(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfio_store.tables.formats.array_files._LARGEST", 20_000)
    wide, by_columns = np.zeros((1, 30_000), np.uint8), np.zeros((300, 100), np.uint8, order="F")
    np.savez_compressed(tmp_path / "row.npz", x=wide)
    np.savez_compressed(tmp_path / "rows.npz", x=wide[:, :15_000], y=wide[:, :15_000])
    np.savez_compressed(tmp_path / "whole.npz", x=by_columns)
    long = b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little") + bytes(100)
    (tmp_path / "long.npy").write_bytes(long)
    for name, text in (
        ("row.npz", "a row has 30,000 bytes or more, too many for a record"),
        ("rows.npz", "a row has 15,000 bytes or more, too many for a record"),
        ("whole.npz", "an array of 30,000 bytes is stored by columns"),
        ("long.npy", "a header has 1,073,741,824 bytes"),
    ):
        answer = run("convert", tmp_path / name, tmp_path / "t")
        assert answer.code == 2
        assert text in answer.err
        assert str(tmp_path / name) in answer.err
    for name, array in (("row.npy", wide), ("whole.npy", by_columns)):  # the file has the bytes
        np.save(tmp_path / name, array)
        assert run("convert", tmp_path / name, tmp_path / name.partition(".")[0]).code == 0


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((10**12, 0), "it claims 1,000,000,000,000 rows without a value"),
        ((10**12, 0, 5), "it claims 1,000,000,000,000 rows without a value"),
        ((10**12, -1), "a negative dimension"),
        ((-5, 2), "a negative dimension"),
        ((10**12, 1), "it ends within an array"),
    ],
)
@pytest.mark.parametrize("by_columns", [False, True])
def test_arrays_that_claim_rows_without_bytes(
    run: Run, tmp_path: Path, shape: tuple[int, ...], text: str, by_columns: bool
) -> None:
    header = {"descr": "<f4", "fortran_order": by_columns, "shape": shape}
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    answer = run("convert", tmp_path / "a.npy", tmp_path / "t")
    assert answer.code == 2
    assert text in answer.err or (by_columns and "inflates to too much" in answer.err)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_an_array_of_empty_rows(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((5, 0), np.float32))
    assert run("convert", tmp_path / "a.npy", tmp_path / "t").code == 0
    assert [len(row) for row in tfs.read_table(tmp_path / "t")["array"]] == [0] * 5


def test_formats_that_are_read_only(run: Run, tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, str(tmp_path / "t"))
    answer = run("convert", tmp_path / "t", tmp_path / "x.npy")
    assert answer.code == 2
    assert "TARGET names a numpy file, which is read only" in answer.err


@pytest.mark.tensorflow
def test_tensorflow_reads_a_folder_of_images(run: Run, tmp_path: Path) -> None:
    import tensorflow as tf

    image = pytest.importorskip("PIL.Image")
    for n in range(8):
        folder = tmp_path / "images" / ("cat" if n % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (8, 8), (n * 30, 255 * (n % 2), 0)).save(folder / f"{n}.png")
    target = str(tmp_path / "t")
    assert run("convert", tmp_path / "images", target, "--from", "images").code == 0
    spec = tfs.infer_schema(target).select(["image", "label"]).feature_spec()
    dataset = tfs.TFRecordDataset(target, batch_size=4, schema=spec)
    pixels = [
        [tf.io.decode_png(each, 3).numpy() for each in batch["image"].numpy()] for batch in dataset
    ]
    assert np.shape(pixels) == (2, 4, 8, 8, 3)
    assert np.concatenate([batch["label"] for batch in dataset]).tolist() == [0] * 4 + [1] * 4
