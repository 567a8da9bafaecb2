"""What a newcomer does first: writes a dataset, reads it, and goes on after a stop."""

import itertools
import json
import os
import platform
import tempfile
from pathlib import Path

import tfio_store as tfs

records = [f"record {i}".encode() for i in range(1000)]
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
        assert sorted(first + rest) == sorted(records)
        os.chdir("/")
found = tfs.backend()
print(f"works on {platform.python_version()}, {found.core} core, CRC32C by {found.crc32c}")
