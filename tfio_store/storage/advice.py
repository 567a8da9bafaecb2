"""What to do about what a store refuses: one table, from the words of clients to a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from tfio_store.storage.answers import code_of, status_of

__all__ = ["advice_on"]

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
     "Give them in the environment or a profile, or as key and secret in storage_options=; s3fs "
     "takes anon=True for public data"),
    ("S3", r"ExpiredToken|TokenRefreshRequired|RequestExpired|Request has expired"
     r"|UnauthorizedSSOToken|SSOTokenLoad|TokenRetrieval|SSOError",
     "The credentials have expired: get new ones (aws sso login, or a new AWS_SESSION_TOKEN) and "
     "start again; a role or a profile is renewed while a job runs, a token that was copied is not"),
    ("S3", r"CredentialRetrievalError|AssumeRole|MetadataRetrieval",
     "The profile or role gives no credentials: try `aws sts get-caller-identity` there"),
    ("GCS", r"DefaultCredentialsError|Anonymous caller|HTTP 401 .*anonymous",
     "No credentials were found: run `gcloud auth application-default login`, or set "
     "GOOGLE_APPLICATION_CREDENTIALS or token= of storage_options=; token='anon' reads public data "
     "only"),
    ("GCS", r"RefreshError|NonRetryableError|invalid_grant|Reauthentication|HTTP 401\b",
     "The credentials have expired or were revoked: run `gcloud auth application-default login` "
     "and start again; a long job needs a service account, which is renewed while it runs"),
    ("Azure", r"CredentialUnavailableError|NoAuthenticationInformation|PublicAccessNotPermitted"
     r"|DefaultAzureCredential failed",
     "No credentials were found: set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or "
     "AZURE_STORAGE_CONNECTION_STRING, or anon=False with `az login` or a managed identity; "
     "anon=True reads public data only"),
    ("Azure", r"not valid in the specified time frame|token is expired|[Ll]ifetime validation"
     r"|InvalidAuthenticationInfo|AADSTS(?:7000222|700082|50173|70043|500133)\b",
     "The token has expired: sign a new SAS, or run `az login`, and start again; a managed identity "
     "is renewed while a job runs"),
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
     "permissions in docs/how_to/operate_a_job; a bucket whose reader pays says the same, until "
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
    ("", r"HTTP 5\d\d\b|EndpointConnection|ConnectTimeout|ConnectionTimeout",
     f"The store is down, or not reached from here; {WAIT}"),
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
