"""See `scripts.wheels`."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.wheels.arm import arm_python, try_on_arm
from scripts.wheels.build import ROOT, build_sdist, build_wheel
from scripts.wheels.check import check_wheel
from scripts.wheels.elsewhere import elsewhere
from scripts.wheels.pythons import VERSIONS, found_pythons
from scripts.wheels.target import TARGETS, Target
from scripts.wheels.trial import try_wheel, try_without_compiler

HEAD = "| Python | platform | MB | extensions, MB | glibc | here |\n|-|-|-:|-:|-|-|"


def one_line(
    sdist: Path, version: str, python: str, target: Target, to: Path, tests: list[str]
) -> str:
    wheel = build_wheel(sdist, python, version, target, to)
    facts = check_wheel(wheel, target)
    ran = "built and checked, not run"
    if target.runs_here:
        ran = try_wheel(wheel, python, ROOT / f"build/wheel-trial-{version}", tests=tests)
    elif target.machine == "aarch64" and target.libc == "gnu":
        there = arm_python()
        if there is not None and there[0] == version:
            ran = try_on_arm(wheel, *there)
    sizes = f"{facts.nbytes / 1e6:.2f} | {facts.extension_bytes / 1e6:.2f}"
    return f"| {version} | {target.tag} | {sizes} | {facts.glibc or '-'} | {ran} |"


def lines(sdist: Path, pythons: dict[str, str], given: argparse.Namespace) -> Iterator[str]:
    """Of the table, as they come to be known."""
    source_mb = f"{sdist.stat().st_size / 1e6:.2f}"
    for version, python in pythons.items():
        said = try_without_compiler(sdist, python, ROOT / "build/sdist-trial")
        yield f"| {version} | source, no compiler | {source_mb} | - | - | {said} |"
        for target in TARGETS:
            if target.runs_here or not given.here:
                yield one_line(sdist, version, python, target, given.to, given.tests)
    if not given.here:
        for platform, said in elsewhere():
            yield f"| - | {platform} | - | - | - | {said} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts.wheels")
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", action="append", help="a version; default: all that are found")
    parser.add_argument("--here", action="store_true", help="only for this platform")
    parser.add_argument("--tests", nargs="*", default=[], help="run with the installed wheel")
    given = parser.parse_args()
    found = found_pythons(given.python or VERSIONS)
    wanted = given.python or list(found)
    missing = sorted(set(wanted) - set(found))
    if missing or not wanted:
        sys.exit(f"no Python {', '.join(missing) or 'at all'} with headers and venv was found")
    shutil.rmtree(given.to, ignore_errors=True)
    given.to.mkdir(parents=True)
    sdist = build_sdist(given.to)
    print(HEAD, flush=True)
    for line in lines(sdist, {version: found[version] for version in wanted}, given):
        print(line, flush=True)


if __name__ == "__main__":
    main()
