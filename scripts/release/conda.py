"""Builds the recipe with rattler-build, and runs its tests in conda's environment.

    this Python and PyPI's packages, as a channel ─ the recipe's package ─ its tests

The channel stands in for conda-forge. The compiler is this machine's, so its packages are empty.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from rattler_build import (
    Package,
    PlatformConfig,
    RenderConfig,
    Stage0Recipe,
    ToolConfiguration,
    VariantConfig,
    assemble_package,
    collect_files,
)

from scripts.wheels.build import ROOT, UV, run

PLACE = ROOT / "build/conda"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PLATFORM = "linux-64"
COMPILER = {"c_compiler": ["gcc"], "c_stdlib": ["sysroot"], "python": [HERE]}
NO_FILES = ("gcc_linux-64", "sysroot_linux-64")
LEFT_OUT = ("site-packages", "test", "**/__pycache__")
PACKAGES = ("pip", "setuptools", "cython", "numpy", "fsspec", "google-crc32c", "typing_extensions")


def make_channel(channel: Path) -> str:
    """All that the recipe names, as packages of conda's; the channel's address."""
    folder = channel / PLATFORM
    folder.mkdir(parents=True)
    records = [_package(folder, name, "1", None) for name in NO_FILES]
    records.append(_package(folder, "python", sys.version.split()[0], _python()))
    for name in PACKAGES:
        root = PLACE / "site" / name
        site = root / f"lib/python{HERE}/site-packages"
        run(*UV, "pip", "install", "--quiet", "--no-deps", "--target", site, name)
        (info,) = site.glob("*.dist-info")
        version = info.name.removesuffix(".dist-info").rpartition("-")[2]
        records.append(_package(folder, name, version, collect_files(root), ["python"]))
    for subdir, held in ((PLATFORM, records), ("noarch", [])):
        (channel / subdir).mkdir(exist_ok=True)
        told = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": dict(held)}
        (channel / subdir / "repodata.json").write_text(json.dumps(told), encoding="utf-8")
    return channel.as_uri()


def _python() -> Any:
    library = f"lib/python{HERE}"
    return collect_files(
        sys.base_prefix,
        include_globs=["bin/python*", f"{library}/**", f"include/python{HERE}/**"],
        exclude_globs=[f"{library}/{part}/**" for part in LEFT_OUT],
    )


def _package(
    folder: Path, name: str, version: str, files: Any, depends: list[str] | None = None
) -> tuple[str, dict[str, Any]]:
    """Its file's name, and what the channel says of it."""
    given: dict[str, Any] = {"depends": depends or [], "license": "as on PyPI"}
    made = assemble_package(
        name,
        version,
        PLATFORM,
        "0",
        folder,
        files=files,
        compression_level=1,
        detect_prefix=False,
        **given,
    ).path
    content = made.read_bytes()
    return made.name, {
        "name": name,
        "version": version,
        "build": "0",
        "build_number": 0,
        "subdir": PLATFORM,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        **given,
    }


def main() -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    channel = make_channel(PLACE / "channel")
    recipe = Stage0Recipe.from_file(ROOT / "conda/recipe.yaml")
    platform = PlatformConfig(target_platform=PLATFORM)
    variants = recipe.render(VariantConfig(COMPILER), RenderConfig(platform=platform))
    for variant in variants:
        (made,) = variant.run_build(
            tool_config=ToolConfiguration(), output_dir=PLACE / "out", channels=[channel]
        ).packages
        tests = Package.from_file(made).run_tests(channel=[channel])
        failed = [line for test in tests if not test.success for line in test.output]
        if failed or not tests:
            sys.exit("\n".join([f"{made.name}: a test of the recipe failed", *failed[-20:]]))
        print(f"{made.name}: built, {len(tests)} tests of the recipe passed")


if __name__ == "__main__":
    main()
