"""Tests that a store or a door of your own runs, to show that it does what the library's do. They
need pytest."""

import pytest

for _tests in ("reading", "writing", "doors"):
    pytest.register_assert_rewrite(f"tfio_store.testing.{_tests}")

from tfio_store.testing.doors import DoorTests  # noqa: E402
from tfio_store.testing.reading import ReadingTests  # noqa: E402
from tfio_store.testing.site import Site  # noqa: E402
from tfio_store.testing.writing import WritingTests  # noqa: E402

__all__ = ["DoorTests", "Site", "StoreTests"]


class StoreTests(ReadingTests, WritingTests):
    """Tests for pytest that every store passes. The library's own stores run them too.

    Subclass it in a test module, with a fixture ``site`` that gives each test a fresh `Site`.

    Example:
        >>> import pytest
        >>> from tfio_store.testing import Site, StoreTests
        >>> class TestMyStore(StoreTests):
        ...     @pytest.fixture
        ...     def site(self, tmp_path):
        ...         return Site(f"mystore://{tmp_path}")
    """
