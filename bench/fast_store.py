"""A read-only S3 server over a folder, which costs next to nothing: what is measured is its client.

    python -m bench.fast_store PORT FOLDER --wait-ms 30

``FOLDER/bucket/key`` is the object ``s3://bucket/key``. Bytes go from the file to the socket by
sendfile, in a process of the server's own, or in several (``--processes``). With ``--log`` each
request becomes a line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import email.utils
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.servers.process import free_port, running

KEY, SECRET = "bench", "bench-secret"
PAGE = 1000


def options(endpoint: str) -> dict[str, object]:
    """The ``storage_options`` of this server."""
    return {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}


@contextlib.contextmanager
def fast_store(
    folder: str | Path,
    *,
    wait_ms: float = 0,
    log: str | Path | None = None,
    processes: int = 1,
) -> Iterator[str]:
    """The URL of a server of ``folder`` in processes of its own, while the block runs."""
    port = free_port()
    command = [sys.executable, "-m", "bench.fast_store", str(port), str(folder)]
    command += ["--wait-ms", str(wait_ms), "--processes", str(processes)]
    command += [] if log is None else ["--log", str(log)]
    with running(command, port=port):
        yield f"http://127.0.0.1:{port}"


class Connection:
    def __init__(self, end: socket.socket, folder: Path, wait_s: float, log: int | None) -> None:
        self._end, self._folder, self._wait_s, self._log = end, folder, wait_s, log
        self._asked: dict[str, object] = {}

    def serve(self) -> None:
        self._end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held = b""
        with self._end, contextlib.suppress(ConnectionError):
            while True:
                while b"\r\n\r\n" not in held:
                    more = self._end.recv(1 << 16)
                    if not more:
                        return
                    held += more
                head, _, held = held.partition(b"\r\n\r\n")
                if self._wait_s:
                    time.sleep(self._wait_s)
                self._answer(head.decode("latin-1"))

    def _answer(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        url = urlsplit(target)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = self._folder / bucket / key
        self._asked = {"method": method, "key": key, "prefix": asked.get("prefix")}
        self._asked |= {"range": headers.get("range"), "at": time.time()}
        if method not in ("GET", "HEAD"):
            self._send(405, body=_error("MethodNotAllowed", "This store is for reading."))
        elif not key:
            self._send(200, body=self._listing(bucket, asked).encode(), kind="application/xml")
        elif not path.is_file():
            body = b"" if method == "HEAD" else _error("NoSuchKey", "There is no such key.")
            self._send(404, body=body, kind="application/xml")
        else:
            self._send_object(path, method, headers)

    def _send_object(self, path: Path, method: str, headers: dict[str, str]) -> None:
        with open(path, "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            etag, size = _etag(found), found.st_size
            if headers.get("if-match", etag) != etag:
                self._send(412, body=_error("PreconditionFailed", "It was replaced."))
                return
            first, end, status = 0, size, 200
            more = {"ETag": etag, "Accept-Ranges": "bytes"}
            more["Last-Modified"] = email.utils.formatdate(found.st_mtime, usegmt=True)
            if span := re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", "")):
                first = int(span[1]) if span[1] else max(0, size - int(span[2]))
                end = min(size, int(span[2]) + 1) if span[1] and span[2] else size
                if first >= size:
                    self._send(416, body=_error("InvalidRange", "There is nothing there."))
                    return
                status = 206
                more["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
            self._send(status, nbytes=end - first, more=more, kind="binary/octet-stream")
            while method == "GET" and first < end:
                first += os.sendfile(self._end.fileno(), file.fileno(), first, end - first)

    def _send(
        self,
        status: int,
        *,
        body: bytes = b"",
        nbytes: int | None = None,
        more: dict[str, str] | None = None,
        kind: str = "application/xml",
    ) -> None:
        length = len(body) if nbytes is None else nbytes
        if self._log is not None:
            got = 0 if nbytes is None or self._asked["method"] == "HEAD" else nbytes
            line = json.dumps({**self._asked, "status": status, "nbytes": got})
            os.write(self._log, f"{line}\n".encode())
        lines = [f"HTTP/1.1 {status} -", f"Content-Length: {length}", f"Content-Type: {kind}"]
        lines += [f"{name}: {value}" for name, value in (more or {}).items()]
        self._end.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def _listing(self, bucket: str, asked: dict[str, str]) -> str:
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        after = asked.get("continuation-token", asked.get("start-after", ""))
        limit = min(PAGE, int(asked.get("max-keys", PAGE)))
        root = self._folder / bucket
        keys = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        found: dict[str, str] = {}
        token = ""
        for key in keys:
            if not key.startswith(prefix):
                continue
            stop = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if stop < 0 else key[: stop + len(delimiter)]
            if name <= after or name in found:
                continue
            if len(found) == limit:
                token = f"<NextContinuationToken>{escape(max(found))}</NextContinuationToken>"
                break
            folder = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            found[name] = _entry(root / key, key) if stop < 0 else folder
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>{PAGE}</MaxKeys>"
            f"<KeyCount>{len(found)}</KeyCount><IsTruncated>{str(bool(token)).lower()}</IsTruncated>{token}"
            f"{''.join(found.values())}</ListBucketResult>"
        )


def _entry(path: Path, key: str) -> str:
    found = path.stat()
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.st_mtime))
    return (
        f"<Contents><Key>{escape(key)}</Key><Size>{found.st_size}</Size><LastModified>{when}"
        f"</LastModified><ETag>{escape(_etag(found))}</ETag>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def _etag(found: os.stat_result) -> str:
    return f'"{found.st_mtime_ns:016x}{found.st_size:016x}"'


def _error(code: str, message: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wait-ms", type=float, default=0, help="before each answer")
    parser.add_argument("--log", type=Path, help="a file that gets a line for each request")
    parser.add_argument("--processes", type=int, default=1, help="how many of them serve the port")
    given = parser.parse_args()
    for _ in range(given.processes - 1):
        if not os.fork():
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: it ends with the first
            break
    log = None
    if given.log is not None:
        log = os.open(given.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    # the kernel shares connections out among the processes that listen
    with socket.create_server(("127.0.0.1", given.port), backlog=1024, reuse_port=True) as listener:
        while True:
            end, _ = listener.accept()
            connection = Connection(end, given.folder, given.wait_ms / 1000, log)
            threading.Thread(target=connection.serve, daemon=True).start()


if __name__ == "__main__":
    main()
