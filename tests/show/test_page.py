"""The page of a report, as text: bounded, inert, and the same as the facts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.show import made_facts
from tfio_store.show import page as page_module
from tfio_store.show.model import Facts, Scope, size
from tfio_store.show.page import (
    FIRST_LINES,
    SCRIPTS,
    STYLE,
    asset,
    fitted,
    frame_of,
    page_of,
    scope_text,
)


class Elements(HTMLParser):
    """Names, attributes and texts of all elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.found[-1][0] if self.found else "", []).append(data)


def facts_in(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(text)
    return found


EACH = ("facts", "empty", "hostile", "wide")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    pytest.importorskip("PIL")
    return {name: page_of(getattr(made_facts, name)()) for name in EACH}


def test_a_page_holds_its_facts() -> None:
    pytest.importorskip("PIL")
    facts = made_facts.facts()
    assert facts_in(page_of(facts)) == json.loads(json.dumps(facts.to_json()))


@pytest.mark.parametrize("name", EACH)
def test_nothing_is_fetched(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    assert page.encode().startswith(FIRST_LINES)
    for tag, attributes in Elements(page).found:
        assert not {"src", "href", "style", "srcset", "action"} & attributes.keys(), tag
        assert not any(key.startswith("on") for key in attributes)
        assert tag not in ("link", "iframe", "object", "embed", "base", "img", "svg")


@pytest.mark.parametrize("name", EACH)
def test_the_policy_allows_these_scripts_and_no_others(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for body in (*re.findall("<script>(.*?)</script>", page, re.DOTALL), *style_of(page)):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == len(SCRIPTS) + 2


def style_of(page: str) -> list[str]:
    return re.findall("<style>(.*?)</style>", page, re.DOTALL)


def test_hostile_texts_make_no_elements(pages: dict[str, str]) -> None:
    usual, hostile = Elements(pages["facts"]), Elements(pages["hostile"])
    assert {tag for tag, _ in hostile.found} <= {tag for tag, _ in usual.found} | {"ul", "li"}
    assert pages["hostile"].count("<script") == pages["facts"].count("<script")
    pages["hostile"].encode()  # no surrogates


def test_a_page_is_bounded(pages: dict[str, str]) -> None:
    assert all(len(page.encode()) < 10_000_000 for page in pages.values())
    assert len(pages["empty"].encode()) < 700_000
    large = tuple(made_facts.image(i, bytes(2_000_000)) for i in range(9))
    page = page_of(made_facts.facts(items=large))
    assert 5_000_000 < len(page.encode()) < 10_000_000
    assert "7 of 9 images, texts and sounds do not fit" in facts_in(page)["scope"]["left_out"]


def test_charts_are_left_out_before_features() -> None:
    many = tuple(made_facts.text(i, "<&>" * 2000) for i in range(100))
    found = fitted(made_facts.facts(items=many, features=made_facts.wide(550).features), 800_000)
    assert len(found.features) == 550
    assert found.features[0].histogram is not None
    assert found.features[-1].histogram is None
    charts, items = found.scope.left_out
    assert re.fullmatch(r"charts of \d+ of 550 features", charts)
    assert re.fullmatch(r"\d+ of 100 images, texts and sounds do not fit", items)
    few = fitted(replace(made_facts.empty(), features=made_facts.wide(550).features), 300_000)
    assert few.scope.left_out[0].startswith("features: ")
    assert 0 < len(few.features) < 550


def test_what_fits_stays_as_it_is() -> None:
    pytest.importorskip("PIL")
    facts = made_facts.facts()
    assert fitted(facts) == facts
    assert fitted(made_facts.empty()) == made_facts.empty()


def test_items_of_all_features_get_room() -> None:
    """A feature of many images leaves room for that of a few."""
    many = tuple(made_facts.image(i, bytes(30_000), feature="a") for i in range(50))
    few = tuple(made_facts.image(i, bytes(30_000), feature="b") for i in range(2))
    found = fitted(replace(made_facts.empty(), items=many + few), most=400_000).items
    assert [item.feature for item in found].count("b") == 2
    assert 4 < len(found) < 20


def test_without_scripts_there_are_findings_and_features(pages: dict[str, str]) -> None:
    facts: Facts = made_facts.facts()
    body = pages["facts"].partition("<body>")[2].partition("<script")[0]
    for finding in facts.findings:
        assert finding.text in body
    for feature in facts.features:
        assert f"<td>{feature.name}</td>" in body
    assert "12,000 of 1,281,167 records" in body
    assert "… and 4,500 more." in pages["wide"]
    assert "Nothing odd was found" in pages["empty"]


def test_sentences_of_what_was_looked_at() -> None:
    scope = Scope(256, 9500, False, 1000, 20_000, 1 << 20, False, 3, ())
    assert scope_text(scope) == (
        "From 256 of 9,500 blocks: 1,000 of 20,000 records, 1.0 MiB. Seed 3."
    )
    spots = replace(scope, of_blocks=None, of_records=None, spots=True)
    assert scope_text(spots) == "From 256 spots: 1,000 records, 1.0 MiB. Seed 3."
    assert scope_text(replace(scope, full=True)) == "All was looked at: 1,000 records, 1.0 MiB."


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (20 << 20, "20 MiB"),
        (3 << 60, "3,072 PiB"),
    ],
)
def test_units(nbytes: int, text: str) -> None:
    assert size(nbytes) == text


def test_a_frame_holds_the_page_apart(pages: dict[str, str]) -> None:
    ((tag, attributes),) = Elements(frame_of(pages["hostile"])).found
    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == pages["hostile"]


def test_a_script_that_would_end_its_element_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "asset", lambda name: "x = '</SCRIPT>'")
    with pytest.raises(ValueError, match="cannot stand in a page"):
        page_of(made_facts.empty())


def test_vendored_libraries_are_what_the_manifest_says() -> None:
    """`make generate ONLY=vendor` fetches them."""
    found = json.loads(asset("vendor/versions.json"))
    assert {f"vendor/{one['file']}" for one in found.values()} == {
        name for name in SCRIPTS if name.startswith("vendor/")
    }
    for one in found.values():
        text = asset(f"vendor/{one['file']}")
        assert hashlib.sha256(text.encode()).hexdigest() == one["sha256"]
        assert f" v{one['version']} " in text[:200]
        assert "Permission to use, copy, modify" in asset(f"vendor/{one['licence']}")


def test_our_scripts_read_no_markup_and_set_no_style_attributes() -> None:
    for name in (*SCRIPTS, "boot.js"):
        if not name.startswith("vendor/"):
            for banned in (
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ):
                assert banned not in asset(name), name
    assert "url(" not in asset(STYLE)
    assert "@import" not in asset(STYLE)


def test_the_guide_lists_each_kind_of_finding() -> None:
    findings = Path(page_module.__file__).parent / "findings"
    sources = "".join(path.read_text("utf-8") for path in findings.glob("*.py"))
    pattern = r"(?:finding\(|_of\(|_told\(\s*tally,)\s*\"([a-z0-9-]+)\""
    kinds = set(re.findall(pattern, sources))
    assert len(kinds) > 25
    guide = (Path(__file__).parents[2] / "docs/report.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", guide, re.MULTILINE)) == kinds
