"""What a newcomer does first: writes a dataset, reads it, and goes on after a stop."""

import itertools
import json
import os
import platform
import tempfile
from pathlib import Path

import tfio_store as tfs

records = [f"record {i}".encode() for i in range(1000)]
records_sorted = sorted(records)
for codec in (None, "GZIP"):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with tfs.ShardedWriter("train", num_shards=2, compression=codec) as writer:
            for record in records:
                writer.write(record)
        reader = tfs.RecordReader("train")
        first = list(itertools.islice(reader, 300))
        Path("state.json").write_text(json.dumps(reader.state()))
        other = tfs.RecordReader("train")
        other.restore(json.loads(Path("state.json").read_text()))
        rest = list(other)
        assert len(first) == 300
        assert sorted(first + rest) == records_sorted
        os.chdir("/")
assert tfs.backend().core == "compiled"
print(f"works on {platform.python_version()}, CRC32C by {tfs.backend().crc32c}")
