"""What answers of stores say: their status, their code, their reason, and what to do then."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

__all__ = [
    "Answer", "StatusError", "advice_on", "beginning", "code_of", "message_in", "reason_of",
    "status_of",
]  # fmt: skip

LONGEST_REASON = 500
"""Characters."""


# Answers of HTTP services that this library asks without a client.


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def expect(self, *statuses: int) -> Answer:
        """Itself, if its status is one of these. Raises StatusError."""
        if self.status not in statuses:
            said = message_in(self.body.decode(errors="replace"))
            raise StatusError(self.status, beginning(said, LONGEST_REASON))
        return self

    def document(self) -> dict[str, Any]:
        """The JSON object that it carries. Raises ValueError for anything else."""
        found = json.loads(self.body)
        if not isinstance(found, dict):
            raise ValueError(f"{type(found).__name__} in place of an object")
        return found


class StatusError(Exception):
    """The answer has a status that the request must not end with."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status

    def __str__(self) -> str:
        return f"HTTP status {self.status}: {self.args[1]}"


def code_of(fault: BaseException) -> str | None:
    """The error code in an answer of S3 (botocore) or Azure."""
    response = getattr(fault, "response", None)
    error = response.get("Error") if isinstance(response, dict) else None
    if isinstance(error, dict):
        return error.get("Code")
    code = getattr(fault, "error_code", None)
    return None if code is None else str(getattr(code, "value", code))


def status_of(fault: BaseException) -> int | None:
    """The HTTP status that a client's exception carries, or None."""
    response = getattr(fault, "response", None)
    if isinstance(response, dict):  # botocore
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        candidates = (
            getattr(fault, "status", None),  # aiohttp
            getattr(fault, "status_code", None),  # azure
            getattr(fault, "code", None),  # gcsfs
            getattr(response, "status_code", None),  # requests
        )
        found = next((value for value in candidates if value is not None), None)
    try:
        return int(found) if found is not None else None
    except (TypeError, ValueError):
        return None


DETAIL = re.compile(r"(?m)^[^\S\n]*authenticationerrordetail:\s*(.+)$|^.*?(AADSTS\d+:.+)$", re.I)
"""The lines of Azure's answers that say why."""

INVALID = re.compile(r"Operation returned an invalid status '(.+)'")
"""What Azure's SDK makes of an answer without a body."""


def reason_of(fault: BaseException) -> str | None:
    """The store's own words on why it refuses, in one line. They may show a secret."""
    if isinstance(fault, OSError):  # of a filesystem, or of ours
        return None
    response = getattr(fault, "response", None)
    if isinstance(response, dict):  # botocore
        text = response.get("Error", {}).get("Message")
    elif isinstance(fault, StatusError):
        text = fault.args[1]
    else:
        words = str(getattr(fault, "message", "") or fault)
        detail = DETAIL.search(words)
        first = words.strip().partition("\n")[0]
        found = INVALID.fullmatch(first)
        first = found[1] if found else first
        why = detail and (detail[1] or detail[2])
        text = why if detail and detail[2] else " ".join(filter(None, (first, why)))
    line = " ".join(str(text or "").split())
    return beginning(line, LONGEST_REASON)


def beginning(text: str, most: int) -> str:
    """``text``, or the whole words at its beginning: half a secret would be taken for none."""
    if len(text) <= most:
        return text
    words = text[:most].rsplit(maxsplit=1)
    return f"{words[0]}…" if len(words) == 2 else "…"


def message_in(body: str) -> str:
    """Of an answer in JSON or XML, what is for people. Of any other, all."""
    try:
        error = json.loads(body)["error"]
        return str(error if isinstance(error, str) else error["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        found = re.findall(r"<(?:Code|Message|Details)>([^<]+)", body)
        return ": ".join(found) if found else body


# What to do about it: one table, from the words of clients to a sentence.


CLOUDS = {
    "s3": "S3", "s3a": "S3", "gs": "GCS", "gcs": "GCS",
    "az": "Azure", "abfs": "Azure", "abfss": "Azure", "adl": "Azure",
}  # fmt: skip
"""Whose words the answers for a scheme are."""

LONGEST_CHAIN, LONGEST_TEXT = 8, 4096
"""Exceptions of a chain, and characters of each, that are looked at."""

WAIT = "storage=Storage(retry=Retry(outage=seconds)) waits longer than 300 s"

TABLE = (
    # no credentials, or such as have expired
    ("S3", r"NoCredentialsError|PartialCredentialsError|ProfileNotFound",
     "Give them in the environment, a profile, or as storage_options=, where s3fs takes key=, "
     "secret= and anon=true"),
    ("S3", r"ExpiredToken|TokenRefreshRequired|RequestExpired|Request has expired"
     r"|UnauthorizedSSOToken|SSOTokenLoad|TokenRetrieval|SSOError",
     "The credentials have expired: get new ones (aws sso login, or a new AWS_SESSION_TOKEN), and "
     "start again; a role or profile is renewed while a job runs, a token that was copied is not"),
    ("S3", r"CredentialRetrievalError|AssumeRole|MetadataRetrieval",
     "The profile or role gives no credentials: try `aws sts get-caller-identity` there"),
    ("GCS", r"DefaultCredentialsError|Anonymous caller|HTTP 401 .*anonymous",
     "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS or token= "
     "of storage_options=; token='anon', or finding no credentials, reads public data only"),
    ("GCS", r"RefreshError|NonRetryableError|invalid_grant|Reauthentication"
     r"|Invalid Credentials|HTTP 401\b",
     "The credentials have expired or were revoked: run `gcloud auth application-default login` "
     "and start again; a long job needs a service account, which is renewed while it runs"),
    ("Azure", r"CredentialUnavailableError|NoAuthenticationInformation|PublicAccessNotPermitted"
     r"|DefaultAzureCredential failed",
     "Set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, "
     "run `az login` or use a managed identity; anon=true reads public data only"),
    ("Azure", r"not valid in the specified time frame|token is expired|[Ll]ifetime validation"
     r"|InvalidAuthenticationInfo|AADSTS(?:7000222|700082|50173|70043|500133)\b",
     "The token has expired: sign a new SAS, or run `az login`, and start again; a managed "
     "identity is renewed while a job runs"),
    ("", r"Request has expired|ExpiredToken|not valid in the specified time frame",
     "The URL's signature has expired: sign a new URL"),
    # wrong credentials
    ("S3", r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|UnrecognizedClient",
     "The store does not know this key, or its secret or token is another's: check them, and that "
     "endpoint_url is the store that gave them"),
    ("S3", r"RequestTimeTooSkewed", "This machine's clock is wrong: set it"),
    ("Azure", r"AuthenticationFailed|ClientAuthenticationError",
     "The account key, SAS or login is wrong or has expired, or this machine's clock is wrong: "
     "check the account's name, and sign a new SAS or run `az login`"),
    # who pays, and where the bucket is
    ("S3", r"[Rr]equester.?[Pp]ays",
     "Its reader pays: give requester_pays=True in storage_options="),
    ("GCS", r"requester pays|UserProject|serviceusage\.services\.use",
     "Its reader pays: give requester_pays='PROJECT' in storage_options=, a project that you may "
     "bill (serviceusage.services.use)"),
    ("S3", r"PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocation"
     r"|IncorrectEndpoint|HTTP 301\b",
     "The bucket is in another region than the request is for: give client_kwargs={'region_name': "
     "…} in storage_options= or set AWS_DEFAULT_REGION, and check endpoint_url"),
    # no permission
    ("S3", r"AccessDenied|AllAccessDisabled|AccountProblem|HTTP 403\b",
     "The credentials may not do this: ask for the action that is named, or compare the "
     "permissions in docs/how_to/watch_a_job.md; a bucket whose reader pays says the same, until "
     "requester_pays=True is given"),
    ("GCS", r"HTTP 403\b",
     "The account may not do this: grant Storage Object Viewer to read or Storage Object User to "
     "write, on the bucket"),
    ("Azure", r"AuthorizationFailure|SourceIPMismatch|AccountIsDisabled",
     "The account's firewall, or its state, refuses this machine or this kind of request: allow "
     "its network, or give the SAS or role more"),
    ("Azure", r"Authorization\w+Mismatch|InsufficientAccountPermissions|BasedAuthentication"
     r"|HTTP 403\b",
     "The credentials may not do this: grant Storage Blob Data Reader to read or Contributor to "
     "write, or sign a SAS with the permissions r, l (and w, d)"),
    # a certificate of its own
    ("S3", r"CERTIFICATE_VERIFY_FAILED.*(self[- ]signed|unable to get)",
     "This machine does not know the authority that signed the server's certificate: name its file "
     "in AWS_CA_BUNDLE, or give client_kwargs={'verify': FILE} in storage_options="),
    ("", r"CERTIFICATE_VERIFY_FAILED.*(self[- ]signed|unable to get)",
     "This machine does not know the authority that signed the server's certificate: name its file "
     "in SSL_CERT_FILE and REQUESTS_CA_BUNDLE"),
    ("", r"CERTIFICATE_VERIFY_FAILED",
     "The server's certificate is of another host or time: check the endpoint, and this machine's "
     "clock"),
    # a store that is down, busy, or not there
    ("", r"SlowDown|ServerBusy|Throttl|TooManyRequests|rateLimitExceeded|HTTP 429\b",
     "The store is asked too often, although requests were slowed down: let fewer processes read "
     f"at once, or ask for more; {WAIT}"),
    ("Azure", r"gaierror|dns error|Name or service not known|DNSError|nodename nor servname",
     "No host has that name: check the account's name and its endpoint, and this machine's DNS"),
    ("", r"gaierror|dns error|Name or service not known|DNSError|nodename nor servname",
     "No host has that name: check endpoint_url and the region, and this machine's DNS"),
    ("", r"ConnectionRefused|Connection refused|Connect call failed",
     "No server listens there: check endpoint_url and its port, and that the server runs"),
    ("", r"HTTP 5\d\d\b|ConnectTimeout|ConnectionTimeout",
     f"The store is down, or not reached from here; {WAIT}"),
    ("", r"TimeoutError|timed out",
     "No answer came in time: check the way to the store, and on a slow link let an attempt take "
     "longer by Retry(timeout=seconds)"),
)  # fmt: skip
"""Cloud ("" for all), words of an answer, sentence. The first row that fits counts."""

_TABLE = tuple((cloud, re.compile(words), sentence) for cloud, words, sentence in TABLE)


def advice_on(chain: Iterable[BaseException], url: str) -> str | None:
    """The sentence on a fault and its causes. None if the table has none."""
    cloud = CLOUDS.get(url.partition(":")[0])
    for fault in islice(chain, LONGEST_CHAIN):
        said = _said(fault)
        for whose, words, sentence in _TABLE:
            if whose in ("", cloud) and words.search(said):
                return sentence
    return None


def _said(fault: BaseException) -> str:
    """Its status, type and code, and its text."""
    status, code = status_of(fault), code_of(fault)
    kind = type(fault).__name__
    return f"HTTP {status} {kind} {code}: {fault}"[:LONGEST_TEXT]
