"""What must hold of a wheel, whoever runs it."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from scripts.wheels.build import ROOT, run
from scripts.wheels.target import Target

__all__ = ["Facts", "check_wheel"]

MOST_BYTES = 2 << 20
GLIBC = (2, 17)
"""What a manylinux2014 system has."""

MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}


@dataclass(frozen=True)
class Facts:
    """What the table says of a wheel."""

    nbytes: int
    extension_bytes: int
    glibc: str


def check_wheel(wheel: Path, target: Target) -> Facts:
    """AssertionError or RuntimeError says what is wrong with it."""
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        modules = {name: archive.read(name) for name in names if name.endswith(".so")}
    assert "tfio_store/py.typed" in names, f"{wheel.name} has no py.typed"
    stubs = {_module(name) for name in names if name.endswith(".pyi")}
    built = set(map(_module, modules))
    assert built == stubs, f"{wheel.name} holds {sorted(built)}, where stubs say {sorted(stubs)}"
    needed = [_check_module(name, code, target) for name, code in modules.items()]
    total = sum(map(len, modules.values()))
    assert total < MOST_BYTES, f"the extensions of {wheel.name} take {total} bytes"
    newest = max((version for each in needed for version in each), default=())
    assert newest <= GLIBC, f"{wheel.name} needs glibc {newest}, where its name promises {GLIBC}"
    return Facts(wheel.stat().st_size, total, ".".join(map(str, newest)))


def _module(file: str) -> str:
    """The dotted name of what is in it: a compiled module's, or that which a stub describes."""
    return file.partition(".")[0].replace("/", ".")


def _check_module(name: str, code: bytes, target: Target) -> list[tuple[int, ...]]:
    """The versions of glibc whose symbols it uses."""
    elf = ELFFile(BytesIO(code))
    assert elf["e_machine"] == MACHINES[target.machine], f"{name} is for {elf['e_machine']}"
    debug = [part.name for part in elf.iter_sections() if part.name.startswith(".debug")]
    assert not debug, f"{name} holds debug information: {debug}"
    for path in (str(ROOT), str(Path.home()), "/tmp/"):
        assert path.encode() not in code, f"{name} names a folder of this machine: {path}"
    unknown = _unversioned(elf) if target.libc == "gnu" else []
    assert not unknown, f"{name} uses {unknown}, which its C library does not have"
    used = [
        symbol.name
        for section in elf.iter_sections()
        if isinstance(section, GNUVerNeedSection)
        for _, symbols in section.iter_versions()
        for symbol in symbols
    ]
    return [
        tuple(map(int, symbol.removeprefix("GLIBC_").split(".")))
        for symbol in used
        if symbol.startswith("GLIBC_")
    ]


def _unversioned(elf: ELFFile) -> list[str]:
    """What it wants of somebody, of no version: Python has none, and a C library gives each."""
    symbols, versions = (elf.get_section_by_name(part) for part in (".dynsym", ".gnu.version"))
    return [
        symbol.name
        for i, symbol in enumerate(symbols.iter_symbols())
        if symbol["st_shndx"] == "SHN_UNDEF"
        and symbol["st_info"]["bind"] == "STB_GLOBAL"
        and versions.get_symbol(i)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
        and not symbol.name.startswith(("Py", "_Py"))
    ]
