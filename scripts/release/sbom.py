"""``make sbom``: what the archives in ``dist/`` hold and need, as CycloneDX."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
import uuid
import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from scripts.release.facts import VENDOR, CheckError
from scripts.wheels.build import ROOT, epoch

__all__ = ["bill", "problem"]

SPACE = uuid.UUID("7d8a2b8e-6c0f-5b0e-9b0c-1f6f3f0c2a11")


def bill(archives: Iterable[Path]) -> dict[str, Any]:
    """The document. Nothing in it depends on when and where it was made."""
    files = sorted(archives, key=lambda path: path.name)
    wheel = next((path for path in files if path.suffix == ".whl"), None)
    if wheel is None:
        raise CheckError("there is no wheel to make a bill of: build one first")
    head = metadata(wheel)
    name, version = head["Name"], head["Version"]
    ref = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    parts = [*vendored(ROOT), *required(head.get_all("Requires-Dist") or [])]
    subject = {
        "type": "library",
        "bom-ref": ref,
        "name": name,
        "version": version,
        "purl": ref,
        "licenses": [{"expression": head["License-Expression"]}],
        "components": [
            {"type": "file", "bom-ref": path.name, "name": path.name, "hashes": [_hash(path)]}
            for path in files
        ],
    }
    digest = " ".join(part["hashes"][0]["content"] for part in subject["components"])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(epoch()))),
            "component": subject,
        },
        "components": parts,
        "dependencies": [
            {"ref": ref, "dependsOn": [part["bom-ref"] for part in parts]},
            *({"ref": part["bom-ref"]} for part in parts),
        ],
    }


def metadata(wheel: Path) -> Any:
    """The wheel's METADATA, by field."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def vendored(root: Path) -> list[dict[str, Any]]:
    """The scripts of others that lie in the package."""
    entries = json.loads((root / VENDOR / "versions.json").read_text(encoding="utf-8"))
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{package.replace('@', '%40')}@{entry['version']}",
            "name": package,
            "version": entry["version"],
            "purl": f"pkg:npm/{package.replace('@', '%40')}@{entry['version']}",
            "scope": "required",
            "licenses": [{"license": {"id": "ISC"}}],
            "hashes": [{"alg": "SHA-256", "content": entry["sha256"]}],
        }
        for package, entry in entries.items()
    ]


def required(lines: Iterable[str]) -> list[dict[str, Any]]:
    """What pip installs beside the package. Which versions these are is decided then; the bill
    has the bounds."""
    found = []
    for line in lines:
        plain, _, marker = line.partition(";")
        if "extra ==" in marker:
            continue
        name, bounds = re.fullmatch(r"([\w.-]+)\s*(.*)", plain.strip()).groups()  # type: ignore[union-attr]
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}"
        told = [{"name": "tfio_store:versions", "value": bounds.strip("() ") or "any"}]
        part = {"type": "library", "bom-ref": purl, "name": name, "purl": purl}
        found.append({**part, "scope": "required", "properties": told})
    return found


def problem(document: dict[str, Any]) -> str:
    """What the standard's own schema says against it; empty if nothing."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    return str(error) if error else ""


def _hash(path: Path) -> dict[str, str]:
    return {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts.release.sbom")
    parser.add_argument("folder", type=Path, help="of the wheels and the source distribution")
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    document = bill([*given.folder.glob("*.whl"), *given.folder.glob("*.tar.gz")])
    wrong = problem(document)
    if wrong:
        raise SystemExit(f"the bill is not as CycloneDX 1.6 wants it: {wrong}")
    given.to.parent.mkdir(parents=True, exist_ok=True)
    given.to.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{given.to}: {len(document['components'])} components")


if __name__ == "__main__":
    main()
