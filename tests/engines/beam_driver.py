"""A driver in a process of its own: ``python -m tests.engines.beam_driver ACT URL FOLDER``.

It writes records. ``ACT`` is what comes with the last one, once:

``waits``: it makes the folder ``FOLDER/waits``, and waits for ever.
``kills``: it makes the folder ``FOLDER/kills``, and ends its worker, one of two processes, as the
kernel does.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from tfio_store.beam import WriteToTFRecord

RECORDS = 3000


def main(act: str, url: str, folder: str) -> None:
    def at_the_last(number: int) -> bytes:
        if number == RECORDS - 1 and once(Path(folder) / act):
            os._exit(137) if act == "kills" else time.sleep(600)
        return b"%d" % number * 1000  # so long that some of it is in the store by then

    processes: Any = {"direct_running_mode": "multi_processing", "direct_num_workers": 2}
    options = PipelineOptions([], **processes if act == "kills" else {})
    with beam.Pipeline("FnApiRunner", options=options) as p:
        numbers = p | beam.Create(range(RECORDS)) | beam.Reshuffle()
        records = numbers | beam.Map(at_the_last)
        _ = records | WriteToTFRecord(url, max_shard_bytes=1 << 20)


def once(mark: Path) -> bool:
    try:
        mark.mkdir()
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
