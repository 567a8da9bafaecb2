"""The platforms that wheels are for."""

from __future__ import annotations

import platform
from dataclasses import dataclass

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """One platform, as Zig, Python and pip call it."""

    zig: str
    machine: str
    libc: str
    tag: str

    @property
    def suffix(self) -> str:
        """Of an extension module, behind the Python's own part."""
        return f"{self.machine}-linux-{self.libc}"

    @property
    def runs_here(self) -> bool:
        return self.machine == platform.machine() and self.libc == "gnu"


def _linux(machine: str) -> list[Target]:
    return [
        Target(f"{machine}-linux-gnu.2.17", machine, "gnu", f"manylinux2014_{machine}"),
        Target(f"{machine}-linux-musl", machine, "musl", f"musllinux_1_2_{machine}"),
    ]


TARGETS = [*_linux("x86_64"), *_linux("aarch64")]
