"""What Google Cloud Storage has of its own."""

from __future__ import annotations

import pytest

from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store
from tests.servers.place import Place
from tfio_store.storage import Retry

RETRY = Retry(attempts=3, base_delay=0.01)
MIB = 1 << 20


class LostSessions:
    """GCS that answers one part of an upload by 410, and has forgotten the upload."""

    def __init__(self, server: str, part: int) -> None:
        self.server, self.part, self.parts = server, part, 0
        self.url, self.lost = "", ""

    def __call__(self, request: Request, forward: Forward) -> Answer:
        if request.method == "PUT":
            self.parts += bool(request.body)
            if self.parts == self.part and request.body:
                self.lost = request.path
            if request.path == self.lost:
                return Answer(410)
        answer = forward(request)
        location = dict(answer.headers).get("Location")
        return answer if location is None else answer.header("Location", self._here(location))

    def _here(self, location: str) -> str:
        return self.url + location.partition("://")[2].partition("/")[1] + location.split("/", 3)[3]


@pytest.mark.parametrize("part", [1, 3])
def test_an_upload_that_the_store_gives_up(gcs: Place, part: int) -> None:
    """Begun anew while all its bytes are still here; else an error that says so."""
    lost = LostSessions(gcs.endpoint, part)
    data = bytes(range(256)) * (4 * MIB // 256)
    with rewriting_store(gcs.endpoint, lost) as lost.url:
        options = {**gcs.storage_options, "endpoint_url": lost.url}
        store, path = Place(gcs.root, options).open("object", retry=RETRY)
        output = store.open_output(path, part_bytes=MIB)
        if part == 1:
            output.write(data)
            output.commit()
            assert gcs.get("object") == data
            return
        with pytest.raises(OSError, match="which are not kept here; write the object again"):
            output.write(data)
            output.commit()
        output.abort()
    assert lost.lost
    assert gcs.names() == []
