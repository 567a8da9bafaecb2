"""What this machine can say of platforms whose Python it does not have: make targets for our C."""

from __future__ import annotations

import shutil

from scripts.wheels.build import ROOT, run

__all__ = ["elsewhere"]

QEMU = "no qemu-aarch64: not run"


def elsewhere() -> list[tuple[str, str]]:
    """Pairs of a platform and what was seen there."""
    arm = shutil.which("qemu-aarch64") is not None
    return [
        ("musl, x86_64", _tests("test-c-musl")),
        ("musl, aarch64", _tests("test-c-aarch64") + ", under qemu" if arm else QEMU),
        ("macOS, arm64 and x86_64", _compiled()),
    ]


def _tests(target: str) -> str:
    """The kernels of CRC32C that ran there, each through all of the core's tests."""
    said = run("make", "--no-print-directory", target, cwd=ROOT).splitlines()
    passed = [line.partition(":")[0] for line in said if ": ok" in line and "pool" not in line]
    assert passed, f"make {target} ran no kernel: {said}"
    return f"the C core's tests pass with the kernels {', '.join(passed)}"


def _compiled() -> str:
    said = run("make", "--no-print-directory", "check-macos", cwd=ROOT).strip().splitlines()
    return f"every C file compiles ({said[-1].partition(': ')[2]}); nothing was run"
