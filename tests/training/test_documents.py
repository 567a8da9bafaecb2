"""The parts of docs/how_to about PyTorch and JAX run as they stand, on an S3 server; so does
docs/torch.md.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.pages import blocks_of

NEEDED = {"PyTorch": ("torchdata",), "JAX": ("jax", "grain")}


def execute(page: str, under: str, names: dict[str, Any], bucket: str = "bucket") -> None:
    for number, block in enumerate(blocks_of(f"docs/how_to/{page}", "python", under)):
        code = re.sub(r"\bbucket(?=/)", bucket, block)
        exec(compile(code, f"{page}, {under}, block {number}", "exec"), names)


@pytest.mark.parametrize("framework", NEEDED)
def test_training_from_s3(bucket: Place, framework: str) -> None:
    for package in NEEDED[framework]:
        pytest.importorskip(package)
    names: dict[str, Any] = {}
    name = bucket.root.removeprefix("s3://")
    for under in ("Credentials", "Write a dataset to try", framework):
        execute("train_from_s3.md", under, names, name)
    if framework == "PyTorch":
        assert names["rows"] == 1000
    else:
        assert names["points"].shape == (100, 8)
        assert len(names["rows"]) == 1000


@pytest.mark.parametrize("framework", NEEDED)
def test_training_is_resumed(tmp_path: Path, framework: str) -> None:
    for package in NEEDED[framework]:
        pytest.importorskip(package)
    url = f"{tmp_path}/train"
    tfs.write_table({"label": np.arange(1000)}, url, num_shards=4)
    execute("resume_training.md", framework, {"URL": url, "tfs": tfs})


def test_a_language_model_is_trained(tmp_path: Path) -> None:
    for package in ("torchdata", "grain"):
        pytest.importorskip(package)
    drawn = random.Random(1)
    words = ["record", "shard", "block", "row", "token"]
    texts = [" ".join(drawn.choices(words, k=drawn.randint(0, 40))) for _ in range(400)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "corpus.jsonl").write_text(lines, encoding="utf-8")
    names: dict[str, Any] = {"CORPUS": f"{tmp_path}/corpus.jsonl", "URL": f"{tmp_path}/train"}
    names["CODE"] = f"{tmp_path}/code"
    schema = {"tokens": tfs.Feature("int64", (None,))}
    with tfs.ShardedWriter(names["CODE"], num_shards=1, schema=schema) as writer:
        for size in range(100):
            writer.write({"tokens": [1] * size})
    for number, block in enumerate(blocks_of("docs/how_to/train_a_language_model.md", "python")):
        exec(compile(block, f"train_a_language_model.md, block {number}", "exec"), names)
    assert names["found"]["tokens"] == sum(len(text) + 1 for text in texts)


def test_the_page_of_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchdata", reason="torchdata is not installed")
    labels = np.arange(1000)
    tokens = np.add.outer(labels, np.arange(16))
    tfs.write_table({"tokens": tokens, "label": labels}, f"{tmp_path}/train", num_shards=4)
    names: dict[str, Any] = {"tfs": tfs}
    for number, block in enumerate(blocks_of("docs/torch.md", "python")):
        code = block.replace("s3://bucket", str(tmp_path))
        exec(compile(code, f"docs/torch.md, block {number}", "exec"), names)
    assert capsys.readouterr().out.split() == ["8"] * 4


def test_a_job_is_watched(tmp_path: Path) -> None:
    prometheus = pytest.importorskip("prometheus_client")
    telemetry = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    tfs.write_table({"label": np.arange(1000)}, f"{tmp_path}/train", num_shards=4)
    reader = tfs.RecordReader(f"{tmp_path}/train")
    names: dict[str, Any] = {"reader": reader}
    exported = export.InMemoryMetricReader()
    pytest.importorskip("opentelemetry.metrics").set_meter_provider(
        telemetry.MeterProvider([exported])
    )
    execute("watch_a_job.md", "Prometheus", names)
    execute("watch_a_job.md", "OpenTelemetry", names)
    assert len(list(reader)) == 1000

    registry = prometheus.REGISTRY
    assert registry.get_sample_value("reader_records_total") == 1000
    assert registry.get_sample_value("reader_held_bytes") == 0
    (resource,) = exported.get_metrics_data().resource_metrics
    found = {each.name: each for each in resource.scope_metrics[0].metrics}
    assert found["reader.records"].data.data_points[0].value == 1000
    assert set(found) == {f"reader.{name}" for name in reader.metrics()}
