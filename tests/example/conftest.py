"""What tests of Examples share."""

from __future__ import annotations

import pytest

from tests.support.examples import CODECS, use_codec


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each codec, the compiled one and that in Python."""
    use_codec(request.param, monkeypatch)
