"""Fetches the libraries of `tfio_store/show/static/vendor/` from npm, with their licences.

``python scripts/vendor_js.py`` fetches the versions that VERSIONS names; change them here.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).parent.parent / "tfio_store/show/static/vendor"
VERSIONS = {"d3": "7.9.2", "@observablehq/plot": "0.6.17"}
FILES = {"d3": "dist/d3.min.js", "@observablehq/plot": "dist/plot.umd.min.js"}


def fetch(package: str, folder: Path) -> dict[str, str]:
    """Put a package's script and licence into VENDOR; the answer is its entry in the manifest."""
    asked = ["npm", "pack", "--silent", f"{package}@{VERSIONS[package]}"]
    name = subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True).stdout
    script, licence = Path(FILES[package]).name, f"{package.rpartition('/')[2]}.LICENSE"
    with tarfile.open(folder / name.split()[-1]) as archive:
        for inside, target in ((FILES[package], script), ("LICENSE", licence)):
            file = archive.extractfile(f"package/{inside}")
            assert file is not None, f"{package} has no {inside}"
            (VENDOR / target).write_bytes(file.read())
    digest = hashlib.sha256((VENDOR / script).read_bytes()).hexdigest()
    version = VERSIONS[package]
    return {"version": version, "file": script, "licence": licence, "sha256": digest}


def main() -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        found = {package: fetch(package, Path(folder)) for package in VERSIONS}
    (VENDOR / "versions.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
