"""Web servers that mean harm: what they answer costs an error, and neither memory nor secrets."""

from __future__ import annotations

import pytest

from tests.servers.hostile import Vast
from tests.servers.web import web_server
from tfio_store.storage import Retry, open_store
from tfio_store.storage.store import ObjectInfo

ONCE = Retry(attempts=1, timeout=10)


@pytest.mark.parametrize("size", [str(2**63), str(2**64 - 1), "9" * 5000])
def test_a_size_that_no_object_has_is_refused(size: str) -> None:
    with web_server(type("Claims", (Vast,), {"size": size})) as web:
        store, path = open_store(f"{web.endpoint}/x", retry=ONCE)
        with pytest.raises(OSError, match="a size that no object has") as raised:
            store.info(path)
    assert raised.value.filename == path


@pytest.mark.parametrize("size", [-1, 2**63])
def test_no_store_gives_a_size_that_no_object_has(size: int) -> None:
    assert ObjectInfo("x", 2**63 - 1).size == 2**63 - 1
    with pytest.raises(OSError, match="a size that no object has"):
        ObjectInfo("x", size)
