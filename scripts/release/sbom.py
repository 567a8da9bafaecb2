"""``make sbom``: what the archives in ``dist/`` hold and need, as CycloneDX, in ``build/``.

cyclonedx-py looks at an environment that holds nothing but the wheel and what pip installs with it.
The scripts of others in the package, and the hashes of the archives, are added to what it finds.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.release.facts import VENDOR, CheckError
from scripts.wheels import ROOT, installed, plain_environment, run

__all__ = ["bill", "complete", "main"]


def bill(archives: Iterable[Path], place: Path) -> str:
    """Write the document, and say how much it holds. CheckError if no wheel is for this Python."""
    files = sorted(archives, key=lambda path: path.name)
    tag = f"-cp{sys.version_info.major}{sys.version_info.minor}-manylinux"
    wheel = next((path for path in files if tag in path.name and "x86_64" in path.name), None)
    if wheel is None:
        raise CheckError("there is no wheel to make a bill of: build one first")
    python = installed(wheel, sys.executable, place / "bill", plain_environment())
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip")
    to = place / "tfio_store.cdx.json"
    how = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-reproducible")
    run(sys.executable, "-m", "cyclonedx_py", "environment", *how, "-o", to, python)
    document = complete(json.loads(to.read_text(encoding="utf-8")), files, ROOT)
    to.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return f"{to.name}: {len(document['components'])} components"


def complete(document: dict[str, Any], files: Iterable[Path], root: Path) -> dict[str, Any]:
    """The document with the scripts of others, and with the archives' hashes."""
    entries = json.loads((root / VENDOR / "versions.json").read_text(encoding="utf-8"))
    for package, entry in entries.items():
        purl = f"pkg:npm/{package.replace('@', '%40')}@{entry['version']}"
        part = {"type": "library", "bom-ref": purl, "name": package, "version": entry["version"]}
        part |= {"purl": purl, "licenses": [{"license": {"id": "ISC"}}]}
        part["hashes"] = [{"alg": "SHA-256", "content": entry["sha256"]}]
        document["components"].append(part)
    subject = document["metadata"]["component"]
    subject["components"] = [
        {
            "type": "file",
            "name": path.name,
            "hashes": [
                {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
            ],
        }
        for path in files
    ]
    return document


def main() -> None:
    dist = ROOT / "dist"
    print(bill([*dist.glob("*.whl"), *dist.glob("*.tar.gz")], ROOT / "build"))


if __name__ == "__main__":
    main()
