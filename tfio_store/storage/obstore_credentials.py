"""AWS credentials for obstore from wherever botocore finds them: profiles, SSO, roles.

obstore by itself looks at environment variables and the instance's role only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

__all__ = ["aws_session"]

GOOD_FOR = timedelta(minutes=30)
"""How long obstore keeps an answer; botocore renews what expires in time."""


class BotocoreCredentials:
    """Called by obstore whenever it needs credentials."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> Mapping[str, Any]:
        frozen = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(timezone.utc) + GOOD_FOR,
        }


def aws_session(profile: str | None) -> tuple[BotocoreCredentials | None, str | None]:
    """What botocore knows of credentials and region; None for what it does not know.

    Raises ImportError for a ``profile`` without botocore.
    """
    try:
        from botocore.session import Session
    except ImportError:
        if profile is not None:
            raise
        return None, None
    session = Session(profile=profile)
    credentials = session.get_credentials()
    provider = None if credentials is None else BotocoreCredentials(credentials)
    return provider, session.get_config_variable("region")
