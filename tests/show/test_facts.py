"""What a report says: findings on datasets that have them, none on clean ones, and all of it within
bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.show import datasets
from tests.support.million import write_many
from tfio_store.show.facts import facts_of
from tfio_store.show.model import Facts, Finding
from tfio_store.show.sample import open_source, take_sample
from tfio_store.storage import Storage
from tfio_store.tables.media_types import media_type


def facts(source: object, **options: Any) -> Facts:
    found = facts_of(take_sample(open_source(source, Storage()), **options))  # type: ignore[arg-type]
    text = json.dumps(found.to_json(), allow_nan=False)
    assert len(text) < 10 << 20
    return found


def finding(found: Facts, kind: str) -> Finding:
    (one,) = [each for each in found.findings if each.kind == kind]
    return one


@pytest.mark.parametrize("make", datasets.CLEAN, ids=lambda make: make.__name__)
def test_clean_datasets_have_no_warnings(make: Callable[[Path], str], tmp_path: Path) -> None:
    found = facts(make(tmp_path))
    assert [each.text for each in found.findings if each.level != "note"] == []
    assert len(found.findings) <= 1


@pytest.mark.parametrize(
    ("make", "kind", "level", "text"),
    [
        (datasets.uneven_shards, "shard-size", "warning", "1 of 12 shards is over 5x the median"),
        (datasets.uneven_shards, "small-shard", "note", "1 of 12 shards is under a fifth"),
        (datasets.empty_shards, "empty-shard", "note", "2 of 5 shards hold no record"),
        (datasets.rare_class, "rare-class", "warning", "label 7 is in 0.03 % of records"),
        (datasets.one_class, "imbalance", "warning", "label 0 is in 98 % of records"),
        (datasets.sorted_labels, "sorted", "warning", "label rises along the dataset"),
        (datasets.cut_tokens, "cut-length", "warning", "are exactly 128 values long"),
        (datasets.cut_texts, "cut-length", "warning", "are exactly 100 bytes long"),
        (datasets.cut_letters, "cut-length", "warning", "are exactly 60 characters long"),
        (datasets.padded_tokens, "padded", "note", "all lists are 64 long"),
        (datasets.constant, "constant", "note", "2 features have the same value everywhere"),
        (datasets.missing_feature, "missing", "note", "caption: is missing in 25 % of records"),
        (datasets.blank_images, "blank-image", "warning", "30 of 120 images"),
        (datasets.same_images, "same-value", "warning", "19 of 200 values"),
        (datasets.broken_images, "broken-image", "error", "10 of 100 images"),
        (datasets.mixed_sizes, "mixed-sizes", "note", "5 of 100 images are not 48x32"),
        (datasets.wrong_index, "wrong-index", "error", "holds other records than its manifest"),
        (datasets.mixed_images, "mixed-images", "note", "96 RGB, 12 L, 12 RGBA"),
        (datasets.same_records, "same-record", "warning", "100 records (10 %)"),
        (datasets.bad_texts, "not-utf8", "warning", "20 of 400 texts (5 %) are not UTF-8"),
        (datasets.bad_texts, "lost-letters", "warning", "20 of 400 texts"),
        (datasets.bad_texts, "mojibake", "warning", "20 of 400 texts"),
        (datasets.bad_texts, "empty-text", "warning", "60 of 400 texts (15 %) are empty"),
        (datasets.damaged, "damage", "error", "2 damaged regions in 2 shards"),
        (datasets.damaged_file, "damage", "error", "1 damaged region in 1 shard"),
        (datasets.cut_file, "truncated", "error", "1 shard ends inside a record"),
        (datasets.missing_shard, "unreadable-shard", "error", "2 of 6 shards can't be read"),
        (datasets.shortened_shard, "truncated", "error", "of 1 shard are missing at its end"),
        (datasets.cut_stream, "truncated", "error", "1 compressed shard ends too early"),
        (datasets.error_page, "unreadable-shard", "error", "1 of 3 shards is no TFRecord file"),
        (datasets.noise, "damage", "error", "no record is sound: is this a TFRecord file?"),
        (datasets.huge_record, "large-record", "note", "1 record is over 100x the median"),
        (datasets.two_dtypes, "dtype", "error", "float32 in 160 records, int64 in 40 records"),
        (datasets.no_examples, "no-example", "note", "the records are no tf.train.Example"),
        (datasets.some_no_examples, "no-example", "error", "2 of 100 records"),
        (datasets.no_records, "no-records", "note", "there are no records"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_findings(
    make: Callable[[Path], str], kind: str, level: str, text: str, tmp_path: Path
) -> None:
    found = finding(facts(make(tmp_path)), kind)
    assert found.level == level
    assert text in found.text


@pytest.mark.parametrize(
    ("compression", "kind", "text"),
    [
        ("", "no-index", "files without an index: they were looked at in spots"),
        ("GZIP", "stream", "1 file of those looked at is compressed as one stream"),
    ],
)
def test_files_that_could_be_read_better(
    compression: str, kind: str, text: str, tmp_path: Path
) -> None:
    found = finding(facts(datasets.one_large_file(tmp_path, compression), blocks=2), kind)
    assert (found.level, found.text[: len(text)]) == ("note", text)


def test_an_error_page_among_shards_is_told_as_such(tmp_path: Path) -> None:
    found = facts(datasets.error_page(tmp_path))
    text = finding(found, "unreadable-shard").text
    assert re.search("page-1.tfrecord: .* looks like HTML or XML", text)
    assert [each.kind for each in found.findings if each.level == "error"] == ["unreadable-shard"]


def test_a_missing_shard_is_named_once(tmp_path: Path) -> None:
    text = finding(facts(datasets.missing_shard(tmp_path)), "unreadable-shard").text
    assert text.count("scalars-00001") == 1
    assert text.endswith("No such file or directory")


def test_lost_bytes_that_nobody_can_count(tmp_path: Path) -> None:
    text = finding(facts(datasets.broken_stream(tmp_path)), "damage").text
    assert text.startswith("1 damaged region in 1 shard: compressed data that do not decode")


def test_findings_say_bytes_as_the_rest_of_the_report(tmp_path: Path) -> None:
    found = facts(datasets.huge_record(tmp_path))
    text = finding(found, "large-record").text
    assert text.endswith("over 100x the median of 325 B; the largest has 195 KiB"), text


def test_one_image_bomb_does_not_hide_other_images(tmp_path: Path) -> None:
    found = facts(datasets.image_bomb(tmp_path))
    assert sum(item.kind == "image" for item in found.items) > 20
    assert "1 image: it has too many pixels" in found.scope.left_out
    assert finding(found, "broken-image").text.startswith("feature image: 1 of 99 images")


def test_findings_name_the_records_that_show_them(tmp_path: Path) -> None:
    source = datasets.not_numbers(tmp_path)
    sample = take_sample(open_source(source, Storage()))
    found = facts_of(sample)
    nan, infinite = [each for each in found.findings if each.kind == "not-finite"]
    assert "20 of 1,000 values (2 %) are NaN" in nan.text
    assert "1 of 1,000 values (0.1 %) are infinite" in infinite.text
    assert nan.rows
    told = {place.row for place in found.places}
    for row in nan.rows:
        assert row in told
        record = datasets.record_at(
            sample.dataset.shard(sample.places[row].shard), sample.places[row].offset
        )
        x = tfs.decode_examples([record], {"x": "float32"})["x"][0]
        assert not abs(x) < float("inf")


def test_what_the_schema_says_and_records_do_not_hold(tmp_path: Path) -> None:
    found = facts(datasets.wrong_schema(tmp_path))
    texts = [each.text for each in found.findings if each.kind == "schema"]
    assert len(texts) == 2
    assert "100 records do not hold what the schema says: float32 [3], found 4 values" in texts[0]
    assert "10 records do not hold what the schema says: int64, found bytes values" in texts[1]
    assert finding(found, "dtype").feature == "y"


def test_the_worst_comes_first(tmp_path: Path) -> None:
    levels = [each.level for each in facts(datasets.wrong_schema(tmp_path)).findings]
    assert levels == sorted(levels, key=("error", "warning", "note").index)


def test_shuffled_shards_of_sorted_labels_come_in_runs(tmp_path: Path) -> None:
    for shard, labels in enumerate([(2, 3), (0, 1), (6, 7), (4, 5)]):
        records = [tfs.encode_example({"label": n, "i": i}) for n in labels for i in range(300)]
        datasets.raw(tmp_path / f"s-{shard}.tfrecord", records)
    found = finding(facts(str(tmp_path / "s-*.tfrecord")), "sorted")
    assert "label comes in runs: it changes 7 times" in found.text


def test_the_header(tmp_path: Path) -> None:
    header = facts(datasets.images(tmp_path)).header
    assert (header.records, header.shards, header.codec) == (200, 4, "none")
    assert header.schema == (("image", "jpeg image"), ("label", "class of 4"))
    assert header.schema_source == "manifest"
    assert header.generation is not None
    plain = facts(datasets.compressed_files(tmp_path)).header
    assert (plain.records, plain.codec, plain.schema_source) == (1200, "GZIP", "sample")
    assert plain.schema == (("label", "int64"), ("x", "float32"))


def test_images_of_every_kind_are_shown(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    import io

    found = []
    for encoding in ("JPEG", "PNG", "GIF", "BMP", "WEBP"):
        for side in (20, 700):
            file = io.BytesIO()
            image = pillow.effect_noise((side, side), 60).convert("RGB")
            image.save(file, encoding)
            found.append(file.getvalue())
    path = str(tmp_path / "kinds")
    tfs.write_table({"image": found}, path, num_shards=1)
    items = facts(path).items
    assert len(items) == 10
    for item in items:
        assert item.width in (20, 700)
        assert item.shortened or item.width == 20
        assert media_type(item.data) == item.media_type
        with pillow.open(io.BytesIO(item.data)) as image:
            assert max(image.size) <= 192


def test_raw_pixels_are_shown_as_images(tmp_path: Path) -> None:
    import io

    import numpy as np

    pillow = pytest.importorskip("PIL.Image")
    found = facts(datasets.mnist(tmp_path))
    (feature,) = [each for each in found.features if each.name == "image_raw"]
    assert feature.role == "image"
    assert len(found.items) == 48
    reader = tfs.RecordSource(str(tmp_path / "mnist"))
    for item in found.items:
        assert (item.width, item.height, item.media_type) == (28, 28, "image/png")
        assert item.place.number is not None
        row = tfs.decode_examples([reader[item.place.number]], {"image_raw": "bytes"})
        with pillow.open(io.BytesIO(item.data)) as image:
            assert np.asarray(image).tobytes() == row["image_raw"][0]
        assert dict(item.captions)["label"].isdigit()


def test_pixels_by_the_schema(tmp_path: Path) -> None:
    import numpy as np

    pixels = np.random.default_rng(0).integers(0, 256, (30, 10, 12, 3), dtype=np.uint8)
    schema = tfs.Schema({"x": tfs.Feature("uint8", (10, 12, 3), raw=True)})
    path = str(tmp_path / "pixels")
    tfs.write_table({"x": pixels}, path, num_shards=1, schema=schema)
    found = facts(path)
    assert found.features[0].role == "image"
    assert {(item.width, item.height) for item in found.items} == {(12, 10)}


def test_items_are_of_all_classes_and_all_parts(tmp_path: Path) -> None:
    items = facts(datasets.images(tmp_path)).items
    classes = [dict(item.captions)["label"] for item in items]
    assert set(classes) == {"0 (cat)", "1 (dog)", "2 (bird)", "3 (fish)"}
    assert min(map(classes.count, set(classes))) >= 8
    assert {item.place.shard for item in items} == {0, 1, 2, 3}


def test_audio_is_played(tmp_path: Path) -> None:
    items = facts(datasets.audio(tmp_path)).items
    assert len(items) == 12
    assert {item.media_type for item in items} == {"audio/wav"}


def test_names_and_texts_are_inert(tmp_path: Path) -> None:
    text = json.dumps(facts(datasets.hostile_names(tmp_path)).to_json(), ensure_ascii=False)
    for letter in ("\u202e", "\u202c", "\x1b", "\x00"):
        assert letter not in text


def test_five_thousand_features(tmp_path: Path) -> None:
    found = facts(datasets.many_features(tmp_path))
    assert len(found.features) == 1000
    assert found.scope.left_out == ("4,000 features beyond the first 1,000",)


def test_a_hundred_thousand_shards(tmp_path: Path) -> None:
    found = facts(write_many(tmp_path, 49), blocks=16)
    assert len(found.shards) <= 512
    assert sum(bar.shards for bar in found.shards) == found.header.shards > 100_000
    assert found.scope.records == 16


def test_integers_beyond_what_a_browser_counts_to_are_texts(tmp_path: Path) -> None:
    values = [-(2**63), 2**63 - 1, 2**53 + 1]
    path = datasets.raw(tmp_path / "x.tfrecord", [tfs.encode_example({"x": v}) for v in values])
    found = facts(path)
    feature = found.features[0]
    assert (feature.least, feature.most) == (-(2**63), 2**63 - 1)
    told = found.to_json()["features"][0]
    assert (told["least"], told["most"]) == (str(-(2**63)), str(2**63 - 1))
    assert told["quantiles"][4] == str(2**53 + 1)


def test_full_reads_everything(tmp_path: Path) -> None:
    for make in (datasets.damaged, datasets.compressed_files, datasets.images):
        source = make(tmp_path)
        whole, part = facts(source, full=True), facts(source)
        assert whole.scope.full
        assert whole.scope.records == part.scope.records
        assert whole.findings == part.findings
        assert [f.histogram for f in whole.features] == [f.histogram for f in part.features]
