"""Reports in headless Chromium: they draw, stay inert, fit, and fetch nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.show import datasets, made_facts
from tests.show.browsing import Tab, chromium, opened
from tests.support.long import first
from tfio_store.show.model import Facts
from tfio_store.show.page import frame_of, page_of, scope_text

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


Show = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Show:
    """``with show(page) as tab``"""

    def made(page: str, **how: Any) -> Any:
        path = tmp_path / "page.html"
        path.write_text(page, encoding="utf-8")
        return opened(browser, path.as_uri(), **how)

    return made


def of(facts: Facts) -> str:
    return page_of(facts)


def check(tab: Tab) -> None:
    tab.scroll_through()
    assert tab.wrong == []
    assert [url for url in tab.asked[1:] if not url.startswith("data:")] == []


KINDS: dict[str, list[str]] = {
    "images": ["Images", "Features", "Shards"],
    "texts": ["Features", "Texts"],
    "scalars": ["Features"],
    "damaged": ["Damage"],
    "plain_files": ["Features"],
    "audio": ["Audio"],
    "times": ["Features"],
    "sequences": ["Features"],
    "hostile_names": ["Features"],
    "no_records": ["Findings"],
    "uneven_shards": ["Shards"],
}


@pytest.mark.parametrize("kind", first(1, KINDS))
def test_each_kind_of_dataset(show: Show, tmp_path: Path, kind: str) -> None:
    source = getattr(datasets, kind)(tmp_path)
    with show(tfs.report(source).html) as tab:
        check(tab)
        titles = tab.page.locator("h2").all_inner_texts()
        assert set(KINDS[kind]) <= set(titles)
        assert titles[0] == "Findings"
        if kind != "no_records":
            assert tab.page.locator(".feature.filled h3").count() > 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["facts", "empty", "hostile", "many_shards"])
@pytest.mark.parametrize("width", [400, 1200])
def test_facts_of_each_kind(show: Show, name: str, width: int) -> None:
    facts = getattr(made_facts, name)()
    with show(of(facts), width=width) as tab:
        check(tab)
        assert tab.page.locator(".scope").inner_text() == scope_text(facts.scope)
        assert tab.page.locator("g[aria-label]").count() == 0


def test_hostile_texts_are_shown_as_they_are(show: Show) -> None:
    with show(of(made_facts.hostile())) as tab:
        check(tab)
        page = tab.page
        assert made_facts.HOSTILE in page.locator(".finding .said").inner_text()
        assert page.locator(".feature h3").first.inner_text() == f"{made_facts.HOSTILE}0"
        assert page.title().endswith("tfio_store report")
        assert page.locator("[onerror], [onload], a[href^=javascript]").count() == 0
        assert page.locator("main img").count() == 1  # the others are no images that are shown
        assert page.locator(".broken").count() == 3


@pytest.mark.long
def test_numbers_of_the_facts_are_on_the_page(show: Show) -> None:
    with show(of(made_facts.facts())) as tab:
        tab.scroll_through()
        text = tab.page.locator("#report").inner_text()
        for wanted in (
            "1,281,167",
            "From 256 of 9,500 blocks: 12,000 of 1,281,167 records",
            "2 damaged regions: 5,120 bytes are lost",
            "feature tokens: 21 % are exactly 128 long: cut?",
            "in 97.5 % of records",
            "日本",
            "always 1",
        ):
            assert wanted in text
        assert tab.page.locator("svg[aria-label='bytes of each shard']").count() == 1
        assert tab.page.locator("svg[aria-label='damage by shard and offset']").count() == 1
        assert tab.page.locator("audio").count() == 2


def test_pictures_are_drawn(show: Show) -> None:
    with show(of(made_facts.facts())) as tab:
        tab.scroll_through()
        widths = tab.page.locator("main img").evaluate_all(
            "all => all.map(one => one.naturalWidth)"
        )
        assert widths == [48] * 48
        tab.page.get_by_role("button", name="Show 12 more of 60").click()
        assert tab.page.locator("main img").count() == 60


@pytest.mark.long
def test_an_image_is_enlarged_by_keyboard(show: Show) -> None:
    with show(of(made_facts.facts())) as tab:
        tab.page.locator(".frame").nth(3).focus()
        tab.page.keyboard.press("Enter")
        dialog = tab.page.locator("dialog[open]")
        assert "record 111" in dialog.inner_text()
        assert re.search("48 . 48 pixels", dialog.inner_text())
        tab.page.keyboard.press("Escape")
        tab.page.wait_for_selector("dialog", state="detached")
        assert tab.wrong == []


@pytest.mark.long
def test_5_000_features_are_drawn_as_they_are_needed(show: Show) -> None:
    with show(of(made_facts.wide(5000)), width=400) as tab:
        page = tab.page
        page.locator(".feature.filled").first.wait_for()
        assert page.locator(".feature").count() == 5000
        assert page.locator(".feature.filled").count() < 60
        page.get_by_role("searchbox").fill("COLUMN_4999")
        assert page.locator(".feature:visible").count() == 1
        assert page.locator("output").inner_text() == "1 of 5,000"
        page.locator("#feature-4999.filled .numbers").wait_for()
        page.get_by_role("searchbox").fill("column_7")
        page.locator("#feature-7 svg").wait_for()
        assert tab.wrong == []


@pytest.mark.long
def test_a_finding_leads_to_its_feature(show: Show) -> None:
    with show(of(made_facts.facts())) as tab:
        tab.page.locator(".finding", has_text="tokens").get_by_role("link", name="feature").click()
        target = tab.page.locator(".feature:target")
        assert target.locator("h3").inner_text() == "tokens"


PAIRS = [
    (text, ground)
    for text in ("ink", "muted", "accent", "error", "warning", "note")
    for ground in ("page", "surface")
]


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_colours_have_contrast(show: Show, dark: bool) -> None:
    with show(of(made_facts.empty()), dark=dark) as tab:
        told = tab.page.evaluate(
            "Object.fromEntries(['ink','muted','accent','error','warning','note','page','surface',"
            "'bar','odd'].map(name => [name, "
            "getComputedStyle(document.documentElement).getPropertyValue(`--${name}`)]))"
        )
        ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(told["page"]) < 0.1) is dark
    assert all(str(part) in ground for part in channels(told["page"]))
    for text, behind in PAIRS:
        assert contrast(told[text], told[behind]) >= 4.5, (text, behind)
    for mark in ("bar", "odd"):
        assert contrast(told[mark], told["surface"]) >= 3, mark


def channels(colour: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in re.findall("[0-9a-f]{2}", colour.strip().lower()))


def luminance(colour: str) -> float:
    """WCAG 2's."""
    shares = [part / 255 for part in channels(colour)]
    red, green, blue = (s / 12.92 if s <= 0.03928 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_without_scripts(show: Show) -> None:
    with show(of(made_facts.facts()), scripts=False, width=400) as tab:
        text = tab.page.locator("#report").inner_text()
        assert "2 damaged regions" in text
        assert "datetime64[D]" in text
        assert "need JavaScript" in text


def test_a_notebook_shows_it_in_a_frame(show: Show) -> None:
    notebook = f"<!doctype html><title>notebook</title>{frame_of(of(made_facts.facts()))}"
    with show(notebook) as tab:
        frame = tab.page.frame_locator("iframe")
        frame.locator("h1", has_text="train").wait_for()
        frame.locator("svg").first.wait_for()
        assert tab.said == []


@pytest.mark.long
def test_print(show: Show) -> None:
    with show(of(made_facts.facts())) as tab:
        assert len(tab.page.pdf()) > 50_000
        tab.page.emulate_media(media="print")
        assert not tab.page.locator("nav").is_visible()
