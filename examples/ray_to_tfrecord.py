"""Rows that Ray makes become a TFRecord dataset; Ray and TensorFlow's readers find the same rows.

python examples/ray_to_tfrecord.py s3://bucket/squares
"""

import sys

import ray

import tfio_store as tfs
from tfio_store.ray import read_tfrecords, write_tfrecords


def square(batch):
    return {"number": batch["id"], "square": batch["id"] ** 2}


def main(url: str, rows: int = 10_000) -> None:
    made = ray.data.range(rows, override_num_blocks=4).map_batches(square, batch_size=1000)
    manifest = write_tfrecords(made, url, compression="GZIP", if_exists="overwrite")
    print(f"{manifest.records} rows in {len(manifest.shards)} shards")

    dataset = read_tfrecords(url)
    print("columns:", ", ".join(dataset.schema().names))
    print("sum of the squares:", dataset.sum("square"))
    print("first record:", tfs.RecordSource(url)[0][:20], "...")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "squares")
