"""See `scripts.release`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from scripts.release import facts
from scripts.release.built import Archives, manifest
from scripts.release.sbom import bill
from scripts.wheels import ROOT, run

PLACE = ROOT / "build/release"
FORMS = {
    "vendor.github-workflows": ".github/workflows/*.yml",
    "vendor.dependabot": ".github/dependabot.yml",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
}


def docs() -> str:
    run("make", "--no-print-directory", "docs", cwd=ROOT)
    return f"{len(list((ROOT / 'build/site').rglob('*.html')))} pages without a warning"


def workflows() -> str:
    """By three linters: of the syntax, of the forms, and of what an attacker could use."""
    tools = Path(sys.executable).parent
    for schema, pattern in FORMS.items():
        files = sorted(ROOT.glob(pattern))
        run(tools / "check-jsonschema", "--builtin-schema", schema, *files)
    config = ("--config", ROOT / ".github/zizmor.yml")
    run(tools / "zizmor", "--offline", "--no-progress", *config, ROOT / ".github")
    return run("make", "--no-print-directory", "lint-workflows", cwd=ROOT).strip()


def recipe() -> str:
    """conda-forge builds it and runs its tests."""
    from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig

    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    kinds = VariantConfig({"c_compiler": ["gcc"], "c_stdlib": ["sysroot"], "python": [here]})
    found = Stage0Recipe.from_file(ROOT / "conda/recipe.yaml")
    config = RenderConfig(platform=PlatformConfig(target_platform="linux-64"))
    return f"{len(list(found.render(kinds, config)))} package for Python {here}"


def steps(tag: str) -> dict[str, Callable[[], str]]:
    """The names of the list, in its order."""
    archives = Archives(PLACE / "dist")
    return {
        "versions agree": partial(facts.versions, ROOT),
        "the change log has the section": partial(facts.changelog, ROOT, tag),
        "the repository's address": partial(facts.repository, ROOT, tag),
        "how to install": partial(facts.install, ROOT, tag),
        "licences of others' files": partial(facts.licences, ROOT),
        "workflows and templates": workflows,
        "conda's recipe": recipe,
        "the site": docs,
        "what is committed is in the source distribution": manifest,
        "source distribution and wheel": archives.build,
        "metadata (twine)": archives.twine,
        "contents of the wheel": archives.contents,
        "bill of materials": lambda: bill(archives.both, PLACE),
        "the wheel in an empty environment": archives.try_commands,
        "the same bytes again": archives.same_again,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts.release")
    parser.add_argument("--tag", default="", help="of the release: then nothing may be left to do")
    parser.add_argument("--only", action="append", help="begins the name of a step")
    given = parser.parse_args()
    shutil.rmtree(PLACE, ignore_errors=True)
    failed = 0
    for name, step in steps(given.tag).items():
        if given.only and not any(name.startswith(each) for each in given.only):
            continue
        begun = time.monotonic()
        try:
            state, said = "ok", step()
        except (facts.CheckError, RuntimeError, AssertionError) as error:
            state, said = "FAILED", str(error)
            failed += 1
        print(f"{state:7}{name}: {said} ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{failed} failed" if failed else "nothing failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
