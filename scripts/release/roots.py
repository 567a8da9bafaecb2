"""The wheels on other Linuxes, each a root of its own, as a newcomer has them.

    a root with a Python ─ the wheel for it, in an empty environment ─ README's example, the command

Debian's are made here (as root, by debootstrap). Any other root that has ``python3`` with venv can
be given: one of Alpine's, say. ``--packages`` is a folder of what pip would fetch, for a root whose
Python reaches no index.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from scripts.release.example import first_example, without_tensorflow
from scripts.wheels.build import ROOT, run
from scripts.wheels.debian import mirror

PLACE = Path("/var/tmp/tfio_store-roots")
"""Not in the tree: setuptools would walk through all of them, and through their links."""

PROGRAM = ROOT / "scripts/wheels/program.py"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
OF_THIS_MACHINE = ("etc/resolv.conf", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
ASKS = """
import platform, sys, sysconfig
names = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release") if "=" in line)
print("%d%d" % sys.version_info[:2], "musl" in (sysconfig.get_config_var("MULTIARCH") or ""))
print(names["PRETTY_NAME"].strip('"'), platform.machine())
"""
URL = "/root/data/train"
COMMANDS = (("--version",), ("--help",), ("info", URL), ("count", URL), ("head", URL))


def make_debian(suite: str) -> Path:
    """A root of that release with its own Python."""
    root = PLACE / suite
    if not (root / "usr/bin/python3").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        wanted = "--include=python3,python3-venv,ca-certificates"
        address = mirror().split()[-1]
        run("debootstrap", "--variant=minbase", wanted, suite, root, address)
        if (root / "proc/self").exists():  # which debootstrap leaves mounted for some releases
            run("umount", root / "proc")
    for name in OF_THIS_MACHINE:
        if (Path("/") / name).exists():
            shutil.copy(Path("/") / name, root / name)
    return root


def try_root(root: Path, wheels: Path, packages: Path | None) -> str:
    """A row of the table: what it is, which wheel it took, and what was said there."""
    inside = ("chroot", root)
    told, named = run(*inside, "python3", "-c", ASKS, env=ENVIRONMENT).strip().splitlines()
    version, musl = told.split()
    libc = "musllinux" if musl == "True" else "manylinux"
    wheel = next(wheels.glob(f"*-cp{version}-*{libc}*{named.split()[-1]}.whl"), None)
    if wheel is None:
        raise RuntimeError(f"{wheels} has no {libc} wheel for Python {version}: make wheels")
    place = root / "root/given"
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(root / "root/v", ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copy(wheel, place)
    shutil.copy(PROGRAM, place)
    readme = without_tensorflow(first_example((ROOT / "README.md").read_text(encoding="utf-8")))
    (place / "readme.py").write_text(readme.replace("/tmp/squares", "/root/data"), "utf-8")
    index: tuple[str, ...] = ()
    if packages is not None:
        shutil.copytree(packages, place / "packages")
        index = ("--no-index", "--find-links", "/root/given/packages")
    python = (*inside, "/root/v/bin/python", "-I")
    run(*inside, "python3", "-m", "venv", "/root/v", env=ENVIRONMENT)
    what = f"tfio_store[cli] @ file:///root/given/{wheel.name}"
    run(*python, "-m", "pip", "install", "--quiet", *index, what, env=ENVIRONMENT)
    said = run(*python, "/root/given/program.py", env=ENVIRONMENT).strip().splitlines()[-1]
    if "compiled core" not in said:
        raise RuntimeError(f"{wheel.name} does without its extensions there: {said}")
    run(*python, "/root/given/readme.py", env=ENVIRONMENT)
    for words in COMMANDS:
        run(*inside, "/root/v/bin/tfio-store", *words, env=ENVIRONMENT)
    return f"| {named} | {wheel.name} | {said}; README's example and five commands too |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts.release.roots")
    parser.add_argument("suites", nargs="*", help="Debian's, such as stable and sid")
    parser.add_argument("--root", type=Path, action="append", default=[], help="one that is there")
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist")
    parser.add_argument("--packages", type=Path)
    given = parser.parse_args()
    print("| Linux | wheel | there |\n|-|-|-|", flush=True)
    failed = False
    for root in (*given.suites, *given.root):
        try:
            there = make_debian(root) if isinstance(root, str) else root
            print(try_root(there, given.wheels, given.packages), flush=True)
        except RuntimeError as error:  # the others can still tell something
            print(f"{root}: {error}", flush=True)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
