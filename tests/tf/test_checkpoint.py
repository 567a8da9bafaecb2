"""Saved iterators: in mid-epoch, killed, restored in a new process, the next record is the next."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.servers.web import web_server  # noqa: E402
from tests.support.long import long  # noqa: E402
from tests.tf.run_program import run  # noqa: E402

pytestmark = pytest.mark.tensorflow

RECORDS = 400
SIZE = 20_000  # 53 to a block


def records() -> list[bytes]:
    return [f"{i:06d}".encode().ljust(SIZE, b".") for i in range(RECORDS)]


def iterated(job: dict[str, Any]) -> list[bytes]:
    code = "from tests.tf.programs import iterate; iterate.main(ARGS['job'])"
    out = run(code, timeout=250, ends=-9 if "die" in job else 0, job=job)
    return [bytes.fromhex(line)[:6] for line in out.split()]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("checkpoint")
    with tfs.TFRecordWriter(str(folder / "raw")) as writer:
        for record in records():
            writer.write(record)
    with tfs.TFRecordWriter(str(folder / "gzip"), "GZIP") as writer:
        for record in records():
            writer.write(record)
    raw = (folder / "raw").read_bytes()
    (folder / "long gzip").write_bytes(gzip.compress(raw, 0))  # long enough for batches of its own
    with tfs.ShardedWriter(str(folder / "set"), num_shards=3, compression="GZIP") as sharded:
        for record in records():
            sharded.write(record)
    return {name: str(folder / name) for name in ("raw", "gzip", "long gzip", "set")}


@pytest.mark.parametrize(
    ("source", "options", "symbolic"),
    [
        pytest.param("set", {"shuffle": 2, "seed": 5}, True, id="shuffled, symbolic"),
        pytest.param("long gzip", {"batch_size": 20}, False, id="batches of a gzip stream"),
        *map(
            long,
            [
                pytest.param("raw", {}, False, id="raw stream"),
                pytest.param("gzip", {}, True, id="gzip stream, symbolic"),
                pytest.param(
                    "long gzip", {"batch_size": 20}, True, id="batches of a gzip stream, symbolic"
                ),
                pytest.param("set", {}, True, id="blocks, symbolic"),
                pytest.param("set", {"shuffle": 2, "seed": 5}, False, id="shuffled"),
                # not symbolic: TensorFlow hangs on restoring an interleave of anything unbatched
                pytest.param("set", {"num_parallel_reads": 2}, False, id="parallel reads"),
                pytest.param("raw", {"batch_size": 7}, True, id="batches, symbolic"),
                pytest.param("set", {"batch_size": 7}, False, id="batches of a set"),
                pytest.param(
                    "set",
                    {"batch_size": 7, "shuffle": 2, "seed": 5},
                    True,
                    id="shuffled batches, symbolic",
                ),
            ],
        ),
    ],
)
def test_killed_and_restored(
    sources: dict[str, str], tmp_path: Path, source: str, options: dict[str, Any], symbolic: bool
) -> None:
    job = {
        "arguments": [sources[source]],
        "options": options,
        "checkpoint": str(tmp_path / "checkpoint"),
        "symbolic": symbolic,
    }
    per_element = options.get("batch_size", 1)
    before = 120 // per_element
    # reads on behind what it saves, and dies
    seen = iterated({**job, "before": before, "save": True, "after": RECORDS, "die": True})
    again = iterated({**job, "restore": True, "after": RECORDS})
    assert again == seen
    assert len(again) == RECORDS - before * per_element
    assert len(set(again)) == len(again)


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "seed": 1}], ids=str)
def test_parsed_batches_of_a_store_are_saved_symbolically(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    tfs.write_table({"x": range(100_000)}, str(tmp_path / "set"), num_shards=2)
    symbolic = tf.data.Options()
    symbolic.experimental_symbolic_checkpoint = True
    spec = {"x": tf.io.FixedLenFeature([], tf.int64)}
    with web_server() as web:
        web.files |= {f"/{path.name}": path.read_bytes() for path in tmp_path.iterdir()}
        found = tfs.TFRecordDataset(
            f"{web.endpoint}/set", batch_size=1000, schema=spec, **options
        ).with_options(symbolic)
        iterator = iter(found)
        next(iterator)
        saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
        rest = [batch["x"].numpy().tolist() for batch in iterator]
        restored = iter(found)
        tf.train.Checkpoint(iterator=restored).restore(saved)
        assert [batch["x"].numpy().tolist() for batch in restored] == rest
    assert len(rest) == 99
