"""Azure Blob Storage by Azurite, Microsoft's emulator (``npm install azurite@3.35.0``).

Looked for on PATH, in ``.cache/azurite`` of this repository and wherever AZURITE_HOME says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
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
    with azurite_accounts([ACCOUNT]) as strings:
        yield strings[ACCOUNT]


@contextlib.contextmanager
def azurite_accounts(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """The connection strings of these accounts, while the block runs."""
    found = program()
    assert found is not None, "azurite is not installed"
    port = free_port()
    argv = [found, "--silent", "--inMemoryPersistence", "--disableTelemetry"]
    argv += ["--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    accounts = ";".join(f"{name}:{ACCOUNT_KEY}" for name in names)
    with running(argv, port=port, env={**os.environ, "AZURITE_ACCOUNTS": accounts}):
        yield {name: connection_string(port, name) for name in names}


def connection_string(port: int, account: str) -> str:
    return (
        f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={ACCOUNT_KEY};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{account};"
    )
