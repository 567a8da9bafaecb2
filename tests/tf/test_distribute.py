"""`tf.distribute` trains from a `TFRecordDataset`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.run_program import run  # noqa: E402

pytestmark = pytest.mark.tensorflow

RECORDS = 640


@pytest.mark.timeout(280)
def test_mirrored_strategy_trains(tmp_path: Path) -> None:
    xs = np.random.default_rng(1).normal(size=(RECORDS, 4)).astype(np.float32)
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=3) as writer:
        for x in xs:
            writer.write({"x": x, "y": np.float32(x @ [1, -2, 3, 0.5])})
    code = "from tests.tf.programs import mirrored; mirrored.main(ARGS['source'])"
    loss, count, replicas = run(code, timeout=250, source=str(tmp_path / "set")).split()
    assert float(loss) < 1e-3
    assert int(count) == RECORDS
    assert replicas == "2"
