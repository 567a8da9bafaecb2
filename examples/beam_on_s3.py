"""A Beam pipeline writes a dataset to a bucket, and another one reads a column of it.

python examples/beam_on_s3.py s3://bucket/words
"""

import sys

import apache_beam as beam

import tfio_store as tfs
from tfio_store.beam import ReadFromTFRecord, WriteToTFRecord

LINES = ["a record is a run of bytes", "a block is a run of records", "a shard is a run of blocks"]


def rows(number: int) -> dict[str, object]:
    line = LINES[number % len(LINES)]
    return {"number": number, "words": line.split()}


def main(url: str, count: int = 10_000, storage_options: dict[str, object] | None = None) -> None:
    schema = {"number": "int64", "words": ("str", (None,))}
    with beam.Pipeline("FnApiRunner") as pipeline:
        examples = pipeline | beam.Create(range(count)) | beam.Map(rows)
        examples | WriteToTFRecord(
            url,
            num_shards=4,
            compression_type="gzip",
            schema=schema,
            if_exists="overwrite",
            storage_options=storage_options,
        )
    print(tfs.info(url, storage_options=storage_options).records, "records")

    with beam.Pipeline("FnApiRunner") as pipeline:
        batches = pipeline | ReadFromTFRecord(
            url, batched=True, columns=["words"], storage_options=storage_options
        )
        counts = batches | beam.FlatMap(words_of) | beam.combiners.Count.PerElement()
        counts | beam.combiners.Top.Of(3, key=lambda pair: pair[1]) | beam.Map(print)


def words_of(batch) -> list[str]:
    return batch.column("words").flatten().to_pylist()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "words")
