"""Google Cloud Storage by gcp-storage-emulator, with the conditions that it leaves out.

The emulator serves one request at a time, ignores ``ifGenerationMatch`` and lists without pages.
Run as a module, this starts it with its handlers wrapped, so that they look at the object's
generation first; one request at a time makes that look and the rest one step. As the service does,
a download tells its generation, one from behind the end is refused, and a listing comes in pages.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from email.message import Message
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.process import ask, free_port, running

# else gcsfs asks for each bucket's type by gRPC, and waits a minute for an emulator to answer
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

PAGE_OBJECTS = 100
"""The service's pages hold 1,000 or fewer; the emulator takes a minute for so many objects."""


@contextlib.contextmanager
def gcs() -> Iterator[str]:
    """An endpoint URL, while the block runs."""
    port = free_port()
    with running([sys.executable, "-m", "tests.servers.gcs", str(port)], port=port):
        yield f"http://127.0.0.1:{port}"


def forget(endpoint: str, bucket: str) -> None:
    """A test's bucket with all that is in it, which the emulator would keep until the run ends."""
    ask(endpoint, "DELETE", f"/storage/v1/b/{bucket}?force=true")


class Conditions:
    """``ifGenerationMatch`` for simple uploads, copies and deletes at once, for resumable uploads
    when they end."""

    def __init__(self) -> None:
        self.sessions: dict[str, tuple[str, str, str]] = {}

    def holds(self, storage: Any, bucket: str, name: str, wanted: str) -> bool:
        from gcp_storage_emulator.exceptions import NotFound

        try:
            current = str(storage.get_file_obj(bucket, name)["generation"])
        except NotFound:
            current = "0"
        return current == wanted

    def insert(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> Any:
            wanted = request.query.get("ifGenerationMatch", [None])[0]
            resumable = request.query.get("uploadType") == ["resumable"]
            bucket = request.params["bucket_name"]
            if wanted is not None and not resumable:
                name = request.data["meta"]["name"]
                if not self.holds(storage, bucket, name, wanted):
                    response.status = http.HTTPStatus.PRECONDITION_FAILED
                    return None
            result = handler(request, response, storage, *args, **kwargs)
            if wanted is not None and resumable:
                session = parse_qs(urlsplit(response["Location"]).query)["upload_id"][0]
                self.sessions[session] = bucket, request.query["name"][0], wanted
            return result

        return wrapped

    def upload(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> Any:
            session = self.sessions.get(request.query["upload_id"][0])
            ends = not (request.get_header("Content-Range") or "*").endswith("*")
            if session is not None and ends and not self.holds(storage, *session):
                response.status = http.HTTPStatus.PRECONDITION_FAILED
                return None
            return handler(request, response, storage, *args, **kwargs)

        return wrapped

    def changed(self, bucket: str, name: str) -> Callable[..., Any]:
        """For requests about the object of which these parameters of the path tell."""

        def wrapper(handler: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(
                request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any
            ) -> Any:
                wanted = request.query.get("ifGenerationMatch", [None])[0]
                place = request.params[bucket], request.params[name]
                if wanted is not None and not self.holds(storage, *place, wanted):
                    response.status = http.HTTPStatus.PRECONDITION_FAILED
                    return None
                return handler(request, response, storage, *args, **kwargs)

            return wrapped

        return wrapper

    def download(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> Any:
            from gcp_storage_emulator.exceptions import NotFound

            bucket, name = request.params["bucket_name"], request.params["object_id"]
            wanted = request.query.get("ifGenerationMatch", [None])[0]
            start = (request.get_header("range") or "bytes=0-").removeprefix("bytes=")
            try:
                found = storage.get_file_obj(bucket, name)
            except NotFound:
                return handler(request, response, storage, *args, **kwargs)
            if wanted is not None and wanted != str(found["generation"]):
                response.status = http.HTTPStatus.PRECONDITION_FAILED
                return None
            if request.get_header("range") and int(start.partition("-")[0]) >= int(found["size"]):
                response.status = http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                return None
            response["x-goog-generation"] = str(found["generation"])
            return handler(request, response, storage, *args, **kwargs)

        return wrapped


def paged(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The page behind the token, which is the name of the object before it."""

    def wrapped(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> Any:
        handler(request, response, storage, *args, **kwargs)
        if response.status != http.HTTPStatus.OK:
            return
        after = request.query.get("pageToken", [""])[0]
        answer = json.loads(response._content)
        left = sorted((one for one in answer["items"] if one["name"] > after), key=name_of)
        page = {**answer, "items": left[:PAGE_OBJECTS]}
        if after:
            page["prefixes"] = []  # the first page told them all
        if left[PAGE_OBJECTS:]:
            page["nextPageToken"] = name_of(page["items"][-1])
        response.json(page)

    return wrapped


def name_of(described: dict[str, Any]) -> str:
    return str(described["name"])


def emptied(handler: Callable[..., Any]) -> Callable[..., Any]:
    """``force``: the bucket goes with its objects and unfinished uploads."""

    def wrapped(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> Any:
        if "force" in request.query:
            bucket = request.params["bucket_name"]
            storage.objects.pop(bucket, None)
            for upload, state in list(storage.resumable.items()):
                if state.get("bucket") == bucket:
                    storage.delete_resumable_file_obj(upload)
        return handler(request, response, storage, *args, **kwargs)

    return wrapped


class UploadedParts(BytesParser):
    """gcsfs ends its lines with LF alone, so that a CR before the last is data."""

    def parsebytes(self, text: bytes | bytearray, headersonly: bool = False) -> Message:
        first = text.partition(b"\r\n")[2].partition(b"\n")[0]
        if not first.endswith(b"\r"):
            data, end, boundary = text.rpartition(b"\n--")
            text = data + b"\r" + end + boundary
        return super().parsebytes(text, headersonly)


def cancel(request: Any, response: Any, *args: Any, **kwargs: Any) -> None:
    """The service's own status for a resumable upload that its client has given up."""
    response.status = types.SimpleNamespace(value=499, phrase="Client Closed Request")


def serve(port: int) -> None:
    from gcp_storage_emulator import server
    from gcp_storage_emulator.handlers import buckets, objects
    from gcp_storage_emulator.storage import Storage

    # it would write down the names of all objects at each change, in memory too
    Storage._write_config_to_file = lambda self: None
    server.BytesParser = UploadedParts
    conditions = Conditions()
    wrappers = {
        objects.insert: conditions.insert,
        objects.upload_partial: conditions.upload,
        objects.download: conditions.download,
        objects.delete: conditions.changed("bucket_name", "object_id"),
        objects.rewrite: conditions.changed("dest_bucket_name", "dest_object_id"),
        objects.ls: paged,
        buckets.delete: emptied,
    }
    for _, methods in server.HANDLERS:
        for method, handler in list(methods.items()):
            if handler in wrappers:
                methods[method] = wrappers[handler](handler)
        if "POST" in methods and "PUT" in methods:
            methods["DELETE"] = cancel
    # one request at a time, so the others wait in the queue: of what it drops, clients hear nothing
    http.server.HTTPServer.request_queue_size = 128
    server.create_server("127.0.0.1", port, in_memory=True).run()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
