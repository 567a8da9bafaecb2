"""See `scripts.release`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from scripts.release import built, facts
from scripts.release.sbom import bill, problem
from scripts.wheels.build import ROOT, run

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
    run(tools / "zizmor", "--offline", "--no-progress", ROOT / ".github")
    return run("make", "--no-print-directory", "lint-workflows", cwd=ROOT).strip()


def bill_of(archives: built.Archives) -> str:
    document = bill([archives.sdist, archives.wheel])
    wrong = problem(document)
    if wrong:
        raise facts.CheckError(wrong)
    (PLACE / "tfio_store.cdx.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    return f"{len(document['components'])} components, valid CycloneDX 1.6"


def steps(tag: str) -> dict[str, Callable[[], str]]:
    """The names of the list, in its order."""
    archives = built.Archives(PLACE / "dist")
    return {
        "versions agree": partial(facts.versions, ROOT),
        "the change log has the section": partial(facts.changelog, ROOT, tag),
        "the repository's address": partial(facts.repository, ROOT, tag),
        "how to install": partial(facts.install, ROOT, tag),
        "licences of others' files": partial(facts.licences, ROOT),
        "actions are pinned": partial(facts.pins, ROOT),
        "workflows and templates": workflows,
        "links within the pages": partial(facts.links, ROOT),
        "the site": docs,
        "what is committed is in the source distribution": built.manifest,
        "source distribution and wheel": archives.build,
        "metadata (twine)": partial(built.twine, archives),
        "contents of the wheel": archives.contents,
        "bill of materials": partial(bill_of, archives),
        "the wheel in an empty environment": partial(built.try_commands, archives, PLACE / "trial"),
        "the same bytes again": partial(built.same_again, archives, PLACE / "again"),
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
