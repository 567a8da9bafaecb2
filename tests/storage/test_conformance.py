"""What every store does, and does the same way: each of ours runs what plug-ins run."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.servers.place import Place
from tfio_store.storage import Storage
from tfio_store.testing import Site, StoreTests


class TestOurs(StoreTests):
    """On every server, with another client that looks behind the library's back."""

    @pytest.mark.long
    def test_more_objects_than_a_page_holds(self, site: Site) -> None:
        """A thousand requests, on each store."""
        super().test_more_objects_than_a_page_holds(site)


def test_more_objects_than_a_page_of_s3_holds(s3: Any) -> None:
    TestOurs().test_more_objects_than_a_page_holds(s3)


class TestByItself(StoreTests):
    """As a plug-in runs it, which has no other client."""

    @pytest.fixture
    def site(self) -> Site:
        root = f"memory://test-{uuid.uuid4().hex[:16]}"
        return Site(root, Storage(), one_process=True)


def test_repr_tells_no_secrets(site: Place) -> None:
    store, _ = site.open("x")
    for secret in ("testsecret", "Eby8vdM02xNOcqFl"):
        assert secret not in repr(store)
