"""Extras: what a message or a page tells somebody to install is there to be installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.started import python

ROOT = Path(__file__).parent.parent
HIDDEN = [
    "s3fs", "gcsfs", "adlfs", "obstore", "tensorflow", "zstandard", "pyarrow", "simplejpeg", "PIL",
    "tqdm", "torch", "grain", "datasets", "ray", "apache_beam", "pyspark", "dask",
]  # fmt: skip
CALLS = {
    "s3": "tfs.open('s3://bucket/train')",
    "gcs": "tfs.open('gs://bucket/train')",
    "azure": "tfs.open('az://bucket/train', storage_options={'account_name': 'a'})",
    "tensorflow": "tfs.TFRecordDataset('train')",
    "zstd": "tfs.ShardedWriter('memory://a/b', num_shards=1, compression='ZSTD').write(b'')",
    "arrow": "tfs.RecordBatch.from_records([b'a']).to_arrow()",
    "images": "import tfio_store.image",
    "progress": "tfs.ProgressBar()(1, 2)",
    "torch": "import tfio_store.torch",
    "grain": "import tfio_store.grain",
    "hf": "import tfio_store.hf",
    "ray": "import tfio_store.ray",
    "beam": "import tfio_store.beam",
    "spark": "import tfio_store.spark",
    "dask": "import tfio_store.dask",
}
PROGRAM = """
import json, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Hidden())
import tfio_store as tfs

said = {{}}
for extra, call in {calls}.items():
    try:
        exec(call)
    except ImportError as error:
        said[extra] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What each call says where no extra is installed."""
    program = PROGRAM.format(hidden=HIDDEN, calls=CALLS)
    done = python(program)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("extra", CALLS)
def test_a_message_names_the_extra(said: dict[str, str], extra: str) -> None:
    assert f"pip install 'tfio_store[{extra}]'" in said[extra].replace('"', "'")
