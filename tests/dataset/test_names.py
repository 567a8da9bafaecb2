"""Names of shards: what writers give, and what `clean` may take for one."""

from __future__ import annotations

import fnmatch

import pytest

from tfio_store.dataset.names import DatasetNames, RollOver, new_tag, split_url

TAG = "0123456789ab"


def test_default_names() -> None:
    fixed, rolling = DatasetNames("train", 16), DatasetNames("train")
    assert fixed.shard(3, None) == "train-00003-of-00016.tfrecord"
    assert fixed.shard(3, TAG) == f"_train-00003-of-00016.tfrecord.{TAG}"
    assert rolling.shard(3, None) == "train-00003.tfrecord"
    assert fixed.manifest == "_train.manifest.json"
    assert (fixed.index(None), fixed.index(TAG)) == ("_train.index", f"_train.index.{TAG}")
    assert fixed.claim(TAG) == f"_train.claim.{TAG}"


def test_no_glob_of_plain_names_sweeps_up_a_tagged_one() -> None:
    tagged = DatasetNames("train", 16).shard(3, new_tag())
    for pattern in ("train-*", "train*", "*.tfrecord", "train-*-of-*", "t*"):
        assert not fnmatch.fnmatchcase(tagged, pattern)


def test_tag_of_knows_its_own_names_only() -> None:
    names = DatasetNames("train", 4)
    for own in (names.shard(1, None), names.index(None), names.claim(None)):
        assert names.tag_of(own) == ""
    for own in (names.shard(1, TAG), names.index(TAG), names.claim(TAG)):
        assert names.tag_of(own) == TAG
    for foreign in (
        "train", "train.tfrecord", "train-notes.txt", "train-00001-of-00004.tfrecord.bak",
        "test-00001-of-00004.tfrecord", "_train.manifest.json", "xtrain-00001-of-00004.tfrecord",
        f"train-00001-of-00004.tfrecord.{TAG}", f"_train.index.{TAG}0", "_trainXindex",
        "_train2.index", "train2-00001-of-00004.tfrecord",
    ):  # fmt: skip
        assert names.tag_of(foreign) is None, foreign


def test_another_count_of_shards_is_still_the_dataset() -> None:
    assert DatasetNames("train", 4).is_plain_shard("train-00001-of-00099.tfrecord")
    assert not DatasetNames("train").is_plain_shard("train-00001-of-00099.tfrecord")


def test_templates() -> None:
    names = DatasetNames("a.b+c", 2, "{name}_part{shard}.rec")
    assert names.shard(1, None) == "a.b+c_part1.rec"
    assert names.is_plain_shard("a.b+c_part1.rec")
    assert not names.is_plain_shard("aXb+c_part1.rec")


@pytest.mark.parametrize(
    "template",
    ["part-{shard}", "{name}", "{name}-{shard.__class__}", "{name}-{shard}-{0}", "{name}/{shard}",
     "_{name}-{shard}", "{name}-{shard!r:>", "{name}-{shard:s}", "{name}-{other}{shard}",
     "{name}" + "{shard}" * 8, "{name}{name}-{shard}", "{name}-{shard!r}", "{name:>99}-{shard}",
     "{name}-{shard:1500000000d}", "{name}-{shard:021d}", "{name}-{shard}" + "x" * 300],
)  # fmt: skip
def test_templates_that_make_no_names_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"shard_template|expected|unmatched"):
        DatasetNames("train", 4, template)


@pytest.mark.parametrize("letter", list("%#:?\\\n"))
def test_templates_whose_names_no_manifest_holds_are_refused(letter: str) -> None:
    with pytest.raises(ValueError, match="shard_template"):
        DatasetNames("train", 4, f"{{name}}{letter}{{shard}}")


def test_a_dataset_whose_shards_no_manifest_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with '~'"):
        DatasetNames("~train", 4)


def test_a_rolling_template_knows_no_count() -> None:
    with pytest.raises(ValueError, match="no field but name, shard"):
        DatasetNames("train", None, "{name}-{shard}-of-{num_shards}")


@pytest.mark.parametrize(
    "name", ["", "_x", ".x", "a*", "a?b", "a[1]", "a:b", "a%2f", "a\nb", "a/b"]
)
def test_names_that_are_no_dataset_name_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must end in its name"):
        DatasetNames(name, 1)


def test_roll_over() -> None:
    limits = RollOver(max_bytes=100, max_records=3)
    assert not limits.full(100, 3)
    assert limits.full(101, 1)
    assert limits.full(5, 4)
    for argument in ("max_bytes", "max_records"):
        with pytest.raises(ValueError, match="max_shard_"):
            RollOver(**{argument: 0})


def test_split_url() -> None:
    assert split_url("s3://b/ds/train") == ("s3://b/ds", "train")
    assert split_url("train") == ("", "train")
    assert split_url("/train") == ("", "train")
