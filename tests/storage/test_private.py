"""The private functions of other libraries: still there, as we call them, and used in one place."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tfio_store"

FUNCTIONS = {
    "s3fs.core:S3FileSystem._find_bucket_key": ["self", "s3_path"],
    "s3fs.core:S3FileSystem._get_s3_method_kwargs": ["self", "method"],
    "aiobotocore.client:AioBaseClient._emit_api_params": [
        "self", "api_params", "operation_model", "context",
    ],
    "aiobotocore.client:AioBaseClient._resolve_endpoint_ruleset": [
        "self", "operation_model", "params", "request_context",
    ],
    "gcsfs.core:GCSFileSystem._set_session": ["self"],
    "gcsfs.core:GCSFileSystem._get_params": ["self", "kwargs"],
    "gcsfs.core:GCSFileSystem._get_headers": ["self", "headers"],
}  # fmt: skip

BOUNDED = ("s3fs", "aiobotocore", "gcsfs", "adlfs", "azure-storage-blob")

DOCUMENTED = {"_info", "_cat_file"}
"""The coroutines that fsspec documents for callers on its loop, underscore and all."""

FOREIGN = {"fs", "client", "service", "service_client", "filesystem"}
"""What the package calls the objects of other libraries."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_private_function_is_as_it_was(name: str) -> None:
    module, path = name.split(":")
    package = module.split(".")[0]
    pytest.importorskip(package)
    found: Any = importlib.import_module(module)
    advice = (
        f"{package} {version(package)} has changed {path}, which tfio_store/storage/private uses. "
        "Repair that module, or lower the bound in pyproject.toml"
    )
    for part in path.split("."):
        assert hasattr(found, part), advice
        found = getattr(found, part)
    parameters = list(inspect.signature(found).parameters.values())
    expected = FUNCTIONS[name]
    assert [each.name for each in parameters[: len(expected)]] == expected, advice
    added = parameters[len(expected) :]
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    assert all(p.default is not p.empty or p.kind in optional for p in added), advice


def test_private_attributes_are_there() -> None:
    """Those that only an instance has."""
    core = pytest.importorskip("s3fs.core")
    gcsfs = pytest.importorskip("gcsfs.core")
    azure = pytest.importorskip("azure.storage.blob.aio")
    from fsspec.asyn import sync

    from tfio_store.storage import private

    options = {"endpoint_url": "https://127.0.0.1:1", "client_kwargs": {"verify": False}}
    fs = core.S3FileSystem(key="k", secret="s", skip_instance_cache=True, **options)
    sync(fs.loop, fs.set_session)
    client = sync(fs.loop, fs.get_s3, "bucket")
    assert private.credentials(client).access_key == "k"
    assert private.trusted_certificates(client) is False
    gcs = gcsfs.GCSFileSystem(
        token="anon", endpoint_url="http://127.0.0.1:1/", skip_instance_cache=True
    )
    assert private.location(gcs) == "http://127.0.0.1:1"
    assert private.uses_mtls(gcs) is False
    service = azure.BlobServiceClient("http://127.0.0.1:1/account", proxies={"http": "p"})
    assert private.proxies(service) == {"http": "p"}


def test_versions_are_bounded_from_above() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for name in BOUNDED:
        assert re.search(rf'"{name}>=[\d.]+,<[\d.]+"', text), f"{name} has no upper bound"


def test_only_one_module_for_each_client_touches_them() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.name == "private.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and re.match(r"_[a-z]", node.attr)
                and node.attr not in DOCUMENTED
                and called(node.value) in FOREIGN
            ):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert not found, found


def called(owner: ast.expr) -> str:
    if isinstance(owner, ast.Attribute):
        return owner.attr
    return owner.id if isinstance(owner, ast.Name) else ""
