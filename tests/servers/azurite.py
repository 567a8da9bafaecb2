"""Azure Blob Storage by Azurite, Microsoft's emulator (``npm install azurite@3.35.0``).

Looked for on PATH, in ``.cache/azurite`` of this repository and wherever AZURITE_HOME says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.servers.process import free_port, running

ACCOUNT = "devstoreaccount1"
# the well-known key of every emulator, not a secret
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def program() -> str | None:
    repository = Path(__file__).parents[2]
    homes = [os.environ.get("AZURITE_HOME", ""), str(repository / ".cache" / "azurite")]
    folders = [f"{home}/node_modules/.bin" for home in homes if home]
    return shutil.which("azurite-blob", path=os.pathsep.join([*folders, os.environ["PATH"]]))


@contextlib.contextmanager
def azurite() -> Iterator[str]:
    """A connection string, while the block runs."""
    found = program()
    assert found is not None, "azurite is not installed"
    port = free_port()
    argv = [found, "--silent", "--inMemoryPersistence", "--disableTelemetry"]
    argv += ["--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with running(argv, port=port):
        yield connection_string(port)


def connection_string(port: int) -> str:
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    return (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};"
        f"BlobEndpoint={endpoint};"
    )
