"""A proxy that speaks TLS, with a certificate of its own authority, before a server without."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

__all__ = ["tls"]


@contextlib.contextmanager
def tls(endpoint: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The proxy's endpoint, and the file of its authority's certificate, while the block runs."""
    authority, own = written(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own)
    server = urlsplit(endpoint)
    loop = asyncio.new_event_loop()

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        target.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = await asyncio.open_connection(server.hostname, server.port)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(pump(reader, inner[1]), pump(inner[0], writer))

    async def end() -> None:
        listening.close()
        forwards = asyncio.all_tasks() - {asyncio.current_task()}
        for each in forwards:
            each.cancel()
        await asyncio.gather(*forwards, return_exceptions=True)

    listening = loop.run_until_complete(
        asyncio.start_server(forward, "127.0.0.1", 0, ssl=context, limit=1 << 20)
    )
    port = listening.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{port}", authority
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def written(folder: Path) -> tuple[str, str]:
    """An authority's certificate; and one that it has signed, for 127.0.0.1, with its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.timezone.utc)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        for name in ("the authority of a test", "127.0.0.1")
    ]
    place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key())
    uses = [
        x509.KeyUsage(
            digital_signature=not signs, key_cert_sign=signs, crl_sign=signs,
            content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, encipher_only=False, decipher_only=False,
        )
        for signs in (True, False)
    ]  # fmt: skip
    found = []
    for number, (key, name) in enumerate(zip(keys, names, strict=True)):
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
            .add_extension(place, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(signer, False)
            .add_extension(uses[number], critical=True)
            .sign(keys[0], hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        text = certificate.public_bytes(serialization.Encoding.PEM)
        path = folder / f"{number}.pem"
        path.write_bytes(text if number == 0 else private + text)
        found.append(str(path))
    return found[0], found[1]
