"""Packed batches of tokens as MaxText takes them, from TFRecords on S3, by Grain.

    python examples/grain_maxtext.py

Starts an S3 server on this machine (moto, over HTTP), and writes documents of tokens to it. Then it
makes batches of "inputs" and "targets", with the position and the document ("segmentation") of each
token. It saves the place in the data in the middle, and goes on from there.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import grain
import numpy as np

import tfio_store as tfs
from tfio_store.grain import source

URL = "s3://demo/documents/train"
LENGTH, BATCH, STEPS = 256, 8, 12

Arrays = dict[str, Any]


def start_s3() -> dict[str, Any]:
    """An S3 server with an empty bucket. Returns the storage options that reach it."""
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "demo", "secret": "demo", "endpoint_url": f"http://{host}:{port}"}
    s3fs.S3FileSystem(**options).mkdir("demo")
    return options


def write(options: dict[str, Any]) -> None:
    """Documents of 10 to 200 tokens."""
    random = np.random.default_rng(0)
    schema = {"tokens": ("int32", (None,))}
    with tfs.ShardedWriter(URL, num_shards=4, schema=schema, storage_options=options) as writer:
        for _ in range(2000):
            writer.write({"tokens": random.integers(1, 50_000, random.integers(10, 200))})


def shifted(row: Arrays) -> Arrays:
    """A token's target is the next token of the document."""
    return {"inputs": row["tokens"][:-1], "targets": row["tokens"][1:]}


def named(packed: Arrays) -> Arrays:
    """The names that MaxText's models take."""
    found = {}
    for name in ("inputs", "targets"):
        found[name] = packed[name]
        found[f"{name}_position"] = packed[f"{name}_positions"]
        found[f"{name}_segmentation"] = packed[f"{name}_segment_ids"]
    return found


def batches(options: dict[str, Any], host: int = 0, hosts: int = 1) -> Any:
    """An iterator of this host's batches. In MaxText's place, pass jax.process_index() and
    jax.process_count()."""
    rows = source(URL, shard=(host, hosts), storage_options=options)
    rows = rows.shuffle(seed=1).repeat().map(shifted)
    packed = grain.experimental.FirstFitPackIterDataset(
        rows.to_iter_dataset(),
        length_struct={"inputs": LENGTH, "targets": LENGTH},
        num_packing_bins=BATCH,
    )
    return iter(packed.map(named).batch(BATCH, drop_remainder=True))


def main() -> None:
    options = start_s3()
    write(options)
    iterator = batches(options)
    for step in range(STEPS):
        batch = next(iterator)
        if step == STEPS // 2 - 1:
            state = json.dumps(iterator.get_state(), default=int)
    for name, array in batch.items():
        print(f"{name:<22}{array.dtype}{array.shape}")
    filled = (batch["inputs_segmentation"] > 0).mean()
    print(f"{filled:.0%} of the places hold a token")

    again = batches(options)
    again.set_state(json.loads(state))
    for _ in range(STEPS // 2):
        repeated = next(again)
    same = all((repeated[name] == batch[name]).all() for name in batch)
    print(f"gone on from step {STEPS // 2}: {'the same batch' if same else 'another batch'}")


if __name__ == "__main__":
    main()
