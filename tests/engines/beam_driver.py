"""A driver that dies: ``python -m tests.engines.beam_driver URL FOLDER``.

It writes records. The last one makes the folder ``FOLDER/waits``, and waits for ever.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import apache_beam as beam

from tfio_store.beam import WriteToTFRecord

RECORDS = 3000


def main(url: str, folder: str) -> None:
    def wait_at_the_last(number: int) -> bytes:
        if number == RECORDS - 1:
            (Path(folder) / "waits").mkdir()
            time.sleep(600)
        return b"%d" % number * 1000  # so long that some of it is in the store by then

    with beam.Pipeline("FnApiRunner") as p:
        records = p | beam.Create(range(RECORDS)) | beam.Map(wait_at_the_last)
        _ = records | WriteToTFRecord(url, max_shard_bytes=1 << 20)


if __name__ == "__main__":
    main(*sys.argv[1:])
