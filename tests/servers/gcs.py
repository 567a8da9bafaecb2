"""Google Cloud Storage by gcp-storage-emulator: smoke tests only.

It serves one request at a time. It ignores ``ifGenerationMatch``, so conditions are tested against
`tests.servers.gcs_conditions` where it matters.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.servers.process import free_port, running


@contextlib.contextmanager
def gcs() -> Iterator[str]:
    """An endpoint URL, while the block runs."""
    port = free_port()
    program = str(Path(sys.executable).with_name("gcp-storage-emulator"))
    argv = [program, "start", "--host=127.0.0.1", f"--port={port}", "--in-memory"]
    with running(argv, port=port):
        yield f"http://127.0.0.1:{port}"
