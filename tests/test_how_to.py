"""The pages of docs/how_to run as they stand: Python against a server or a folder, and commands in
a shell. tests/training runs what needs PyTorch or Grain."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tests.support.pages import ROOT, blocks_of, run_in_shell

PAGES = sorted(f"docs/how_to/{page.name}" for page in (ROOT / "docs/how_to").iterdir())
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c6360000000020001e527de0d0000000049454e44ae426082"
)


def execute(
    document: str, names: dict[str, Any], under: str | None = None, **replaced: str
) -> None:
    """``replaced``: what stands in the page for a place that a test has of its own."""
    for number, block in enumerate(blocks_of(document, "python", under)):
        code = block
        for old, new in replaced.items():
            code = re.sub(rf"\b{old}\b", new, code)
        exec(compile(code, f"{document}, {under or ''} block {number}", "exec"), names)


def write_points(url: str, rows: int = 1000, **reached: Any) -> str:
    labels = np.arange(rows)
    points = np.add.outer(labels, np.arange(8)).astype(np.float32)
    tfs.write_table({"label": labels, "point": points}, url, num_shards=4, **reached)
    return url


def tfds_folder(root: Path) -> Path:
    """What TensorFlow Datasets writes: two splits of images with classes."""
    folder = root / "mnist/3.0.1"
    folder.mkdir(parents=True)
    splits = []
    for split, shards in (("train", 2), ("test", 1)):
        for shard in range(shards):
            rows = [{"image": PNG, "label": i % 10} for i in range(50)]
            name = f"mnist-{split}.tfrecord-{shard:05d}-of-{shards:05d}"
            (folder / name).write_bytes(framed([tfs.encode_example(row) for row in rows]))
        splits.append({"name": split, "shardLengths": ["50"] * shards})
    info = {"name": "mnist", "fileFormat": "tfrecord", "splits": splits}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    image = {"shape": {"dimensions": ["1", "1", "1"]}, "dtype": "uint8", "encodingFormat": "png"}
    room = "tensorflow_datasets.core.features."
    features = {
        "image": {"pythonClassName": f"{room}image_feature.Image", "image": image},
        "label": {
            "pythonClassName": f"{room}class_label_feature.ClassLabel",
            "classLabel": {"numClasses": "10"},
        },
    }
    whole = {"pythonClassName": f"{room}features_dict.FeaturesDict"}
    whole["featuresDict"] = {"features": features}  # type: ignore[assignment]
    (folder / "features.json").write_text(json.dumps(whole))
    (folder / "label.labels.txt").write_text("\n".join(map(str, range(10))))
    return folder


def damaged(folder: Path) -> Path:
    """A dataset with one bit flipped, a copy of the file beside it, and the same files as those of
    another program."""
    folder.mkdir(parents=True)
    with tfs.ShardedWriter(
        folder / "train", num_shards=3, schema={"x": "int64"}, metadata={"made": "here"}
    ) as writer:
        writer.write_batch({"x": i} for i in range(3000))
    file = folder / "train-00001-of-00003.tfrecord"
    data = bytearray(file.read_bytes())
    for name in ("backup", "old"):
        (folder / name).mkdir()
    (folder / "backup" / file.name).write_bytes(data)
    data[len(data) // 2] ^= 1
    for copy in (file, folder / "old" / file.name):
        copy.write_bytes(data)
    return folder


@pytest.mark.tensorflow
def test_tensorflow_trains_from_s3(bucket: Place, tmp_path: Path) -> None:
    page = "docs/how_to/train_from_s3.md"
    names: dict[str, Any] = {}
    name = {"bucket": bucket.root.removeprefix("s3://")}
    execute(page, names, "Credentials", **name)
    execute(page, names, "Write a dataset to try", **name)
    execute(page, names, "TensorFlow", **name)
    assert names["records"] == 1000
    for heading in ("Retries and timeouts", "Local cache"):
        execute(page, names, heading, **{"tmp/cache": f"{tmp_path}/cache".lstrip("/")})


def test_the_credentials_in_a_storage_are_those_that_are_used(
    bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    execute("docs/how_to/train_from_s3.md", names, "Credentials")
    for variable in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    write_points(bucket.url("train"), storage=names["storage"])
    assert tfs.count(bucket.url("train"), storage=names["storage"]) == 1000
    assert os.environ.get("AWS_ENDPOINT_URL") is None


def test_a_plain_loop_is_resumed(tmp_path: Path, bucket: Place) -> None:
    url = write_points(bucket.url("train"))
    names: dict[str, Any] = {"URL": url, "CHECKPOINT": f"{tmp_path}/job.json"}
    execute("docs/how_to/resume_training.md", names, "A plain loop")


def test_a_server_of_s3_inside_a_test(tmp_path: Path) -> None:
    pytest.importorskip("moto")
    page = "docs/how_to/test_without_a_cloud.md"
    (block,) = blocks_of(page, "python", "S3 in pytest")
    (tmp_path / "test_page.py").write_text(block)
    run_in_shell(f"{sys.executable} -m pytest -q -p no:cacheprovider test_page.py", tmp_path)
    names: dict[str, Any] = {"tfs": tfs}
    execute(page, names, "GCS and Azure")
    assert "127.0.0.1" not in repr(names["gcs"])


@pytest.mark.tensorflow
def test_tensorflow_is_resumed(tmp_path: Path) -> None:
    url = write_points(f"{tmp_path}/train")
    names: dict[str, Any] = {"URL": url, "CHECKPOINT": f"{tmp_path}/c/model", "tfs": tfs}
    execute("docs/how_to/resume_training.md", names, "TensorFlow")


@pytest.mark.tensorflow
def test_a_job_is_watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = write_points(f"{tmp_path}/train")
    seen: list[int] = []
    names: dict[str, Any] = {
        "URL": url,
        "LOGS": f"{tmp_path}/logs",
        "train": lambda batch: seen.append(len(batch)),
    }
    with caplog.at_level("INFO", "train"):
        execute("docs/how_to/watch_a_job.md", names, "Log")
    assert re.search(r"step 0: \d+ MB/s, \d+ records/s, waiting \d+ % of the time", caplog.text)
    assert sum(seen) == names["reader"].metrics()["records"] == 1000
    execute("docs/how_to/watch_a_job.md", names, "TensorBoard")
    assert list(Path(names["LOGS"]).iterdir())


@pytest.mark.tensorflow
def test_a_folder_of_tfds_is_converted(tmp_path: Path) -> None:
    folder = tfds_folder(tmp_path)
    names: dict[str, Any] = {"FOLDER": str(folder), "URL": f"{tmp_path}/converted"}
    execute("docs/how_to/convert_tfds.md", names)
    converted = tfs.infer_schema(f"{tmp_path}/converted/train")
    assert dict(converted) == dict(names["schema"])
    assert len(tfs.RecordSource(f"{tmp_path}/converted/test")) == 50


@pytest.mark.tensorflow
def test_where_time_and_memory_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = write_points(f"{tmp_path}/train")
    names: dict[str, Any] = {"URL": url, "CACHE": f"{tmp_path}/cache"}
    execute("docs/how_to/memory_and_speed.md", names)
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[:4]] == ["1", "2", "3", "4"]


def test_a_test_of_the_training_data(tmp_path: Path) -> None:
    names: dict[str, Any] = {"URL": write_points(f"{tmp_path}/train")}
    execute("docs/how_to/check_in_ci.md", names)


def test_a_shard_is_repaired_in_python(tmp_path: Path) -> None:
    names: dict[str, Any] = {"URL": str(damaged(tmp_path / "a") / "train")}
    execute("docs/how_to/repair_a_shard.md", names, "Repair in place")
    assert tfs.count(names["URL"]) == 2999
    repaired = tfs.open(names["URL"])
    assert (len(repaired.shards), repaired.metadata) == (3, {"made": "here"})
    assert repaired.schema == tfs.Schema({"x": "int64"})
    assert tfs.verify(names["URL"]).records == 2999

    names["DAMAGED"] = str(damaged(tmp_path / "b") / "train")
    execute("docs/how_to/repair_a_shard.md", names, "Train without repairing")
    assert len(names["records"]) == 2999
    assert "train-00001-of-00003" in str(names["caught"][0].message)


REPAIRS: dict[str, tuple[int, Callable[[Path], None]]] = {
    "Find the damage": (0, lambda folder: None),
    "Repair in place": (2999, lambda folder: None),
    "Repair into a new dataset": (
        0,
        lambda folder: _holds(folder / "good/train", 999),
    ),
    "Restore a lost shard": (3000, lambda folder: None),
    "Remove what a killed writer left": (0, lambda folder: None),
}


def _holds(url: Path, records: int) -> None:
    assert tfs.count(url) == records


@pytest.mark.parametrize("under", REPAIRS)
def test_a_shard_is_repaired_in_a_shell(tmp_path: Path, under: str) -> None:
    pytest.importorskip("click")
    folder = damaged(tmp_path / "data")
    (block,) = blocks_of("docs/how_to/repair_a_shard.md", "sh", under)
    told = run_in_shell(block, folder)
    records, check = REPAIRS[under]
    if under == "Find the damage":
        (shown,) = blocks_of("docs/how_to/repair_a_shard.md", "console", under)
        assert told.replace(str(folder), "/data") == shown
    if records:
        _holds(folder / "train", records)
        assert tfs.verify(folder / "train").ok
    check(folder)


def test_each_heading_with_commands_is_run() -> None:
    text = (ROOT / "docs/how_to/repair_a_shard.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    found = {part.partition("\n")[0] for part in sections if "```sh\n" in part}
    assert found == REPAIRS.keys()


def test_a_folder_of_tfds_in_a_shell(tmp_path: Path) -> None:
    pytest.importorskip("click")
    tfds_folder(tmp_path)
    for block in blocks_of("docs/how_to/convert_tfds.md", "sh"):
        run_in_shell(block, tmp_path)
    _holds(tmp_path / "converted/train", 100)


@pytest.mark.parametrize("page", ["check_in_ci.md", "test_without_a_cloud.md", "train_from_s3.md"])
def test_commands_on_a_bucket(tmp_path: Path, bucket: Place, page: str) -> None:
    pytest.importorskip("click")
    write_points(bucket.url("train"))
    write_points(bucket.url("copy"))
    for block in blocks_of(f"docs/how_to/{page}", "sh"):
        run_in_shell(block.replace("s3://bucket", bucket.root), tmp_path)
    if page == "check_in_ci.md":
        assert json.loads((tmp_path / "verify.json").read_text())["ok"] is True


def test_the_workflow_of_github(tmp_path: Path, bucket: Place) -> None:
    """Its steps run in order, but for the installation: a sound dataset passes, and a damaged one
    fails where every record is read, and nowhere before."""
    pytest.importorskip("click")
    yaml = pytest.importorskip("yaml")
    (text,) = blocks_of("docs/how_to/check_in_ci.md", "yaml")
    job = yaml.safe_load(text)["jobs"]["verify"]
    steps = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert list(steps) == ["Install", "Check sizes", "Check every record", "Look for what is odd"]
    url = write_points(bucket.url("train"))
    for name in list(steps)[1:]:
        run_in_shell(steps[name], tmp_path, DATASET=url)
    assert (tmp_path / "report.html").stat().st_size > 1000

    shard = next(name for name in bucket.names() if name.startswith("train-00001"))
    data = bytearray(bucket.get(shard))
    data[20] ^= 1
    bucket.put(shard, bytes(data))
    run_in_shell(steps["Check every record"], tmp_path, status=1, DATASET=url)


def test_what_quick_does_not_see(tmp_path: Path) -> None:
    """As the table says, of files on a local disk."""
    url = str(damaged(tmp_path / "data") / "train")
    assert tfs.verify(url, quick=True).ok
    assert not tfs.verify(url).ok
    shard = tmp_path / "data/train-00002-of-00003.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert not tfs.verify(url, quick=True).ok
    shard.unlink()
    assert not tfs.verify(url, quick=True).ok


def test_each_page_is_run() -> None:
    """A new page needs a test here."""
    assert [page.rpartition("/")[2] for page in PAGES] == [
        "check_in_ci.md",
        "convert_tfds.md",
        "memory_and_speed.md",
        "repair_a_shard.md",
        "resume_training.md",
        "test_without_a_cloud.md",
        "train_a_language_model.md",
        "train_from_s3.md",
        "watch_a_job.md",
    ]
