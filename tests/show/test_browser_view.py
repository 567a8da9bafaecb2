"""`tfio-store view` in headless Chromium: it draws, moves by keyboard, stays inert, and asks nobody
but its own server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.long import first

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("PIL")

from tests.show import datasets
from tests.show.browsing import Tab, chromium, opened
from tests.show.served import Client, viewed


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


Visit = Callable[..., Any]


@pytest.fixture
def visit(browser: Any) -> Visit:
    """``with visit(source) as tab``: the overview of a source, drawn."""

    @contextlib.contextmanager
    def made(source: str, **how: Any) -> Iterator[Tab]:
        with viewed(source) as client:
            client.ready()
            address = f"{at(client)}?token={client.token}"
            with opened(browser, address, **how) as tab:
                tab.page.wait_for_selector("#report .tiles, .finding.error")
                yield tab

    return made


def at(client: Client) -> str:
    return f"http://127.0.0.1:{client.port}/"


def check(tab: Tab) -> None:
    """Nothing went wrong, and every request was to the page's own server."""
    assert tab.wrong == []
    origin = "/".join(tab.page.url.split("/")[:3]) + "/"
    assert [url for url in tab.asked if not url.startswith((origin, "data:"))] == []


def press(tab: Tab, key: str, wait: str, place: str | None = None) -> None:
    """Press a key, and wait for what it shows."""
    tab.page.keyboard.press(key)
    settle(tab, place)
    tab.page.wait_for_selector(wait)


def settle(tab: Tab, place: str | None = None) -> None:
    """Wait until the screen is drawn; with ``place``, that of this address."""
    drawn = "" if place is None else f'[data-place="{place}"]'
    tab.page.wait_for_selector(f"#screen{drawn}:not([aria-busy])")


def numbers(tab: Tab) -> list[str]:
    found: list[str] = tab.page.locator(".lines tbody th").all_inner_texts()
    return found


KINDS = ["images", "mnist", "texts", "scalars", "damaged", "plain_files", "audio", "hostile_names"]


@pytest.mark.parametrize("dark", first(1, [False, True]))
@pytest.mark.parametrize("kind", first(1, KINDS))
def test_each_screen(tmp_path: Path, visit: Visit, kind: str, dark: bool) -> None:
    """Wide in the light, at 400 pixels in the dark."""
    source = getattr(datasets, kind)(tmp_path)
    with visit(source, width=400 if dark else 1200, dark=dark) as tab:
        tab.scroll_through()
        check(tab)
        press(tab, "r", ".lines")
        check(tab)
        press(tab, "End", ".lines tbody tr:not(.bad)")
        check(tab)
        tab.page.locator(".lines tbody tr:not(.bad) a").first.click()
        tab.page.locator(".record .field").first.wait_for()
        settle(tab)
        check(tab)
        same = tab.page.locator("a.same")
        if same.count():
            same.first.click()
            tab.page.wait_for_selector(".find")
            settle(tab)
            check(tab)
            assert len(numbers(tab)) >= 1


def test_the_address_loses_its_token(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.few(tmp_path)) as tab:
        assert "token" not in tab.page.url
        assert tab.page.evaluate("document.cookie") == ""  # scripts see none
        assert "view" in tab.page.title()


def test_paging_by_keyboard(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.images(tmp_path, count=100)) as tab:
        press(tab, "r", ".lines", "#/records")
        assert numbers(tab) == [str(i) for i in range(20)]
        press(tab, "n", ".lines", "#/records?start=20")
        press(tab, "ArrowRight", ".lines", "#/records?start=40")
        assert numbers(tab)[0] == "40"
        press(tab, "p", ".lines", "#/records?start=20")
        press(tab, "End", ".lines", "#/records?start=80")
        assert numbers(tab) == [str(i) for i in range(80, 100)]
        press(tab, "n", ".lines", "#/records?start=80")
        press(tab, "Home", ".lines", "#/records?start=0")
        for _ in range(3):
            tab.page.keyboard.press("j")
        tab.page.keyboard.press("k")
        press(tab, "Enter", ".record", "#/record/1")
        press(tab, "n", ".record", "#/record/2")
        press(tab, "j", ".record", "#/record/3")
        press(tab, "ArrowLeft", ".record", "#/record/2")
        press(tab, "Escape", ".lines", "#/records?start=0")
        tab.page.keyboard.press("g")
        tab.page.keyboard.type("47")
        press(tab, "Enter", ".record", "#/record/47")
        assert tab.page.locator("h1").inner_text() == "Record 47"
        press(tab, "Escape", ".lines", "#/records?start=40")
        press(tab, "o", "#report .tiles", "#/")
        press(tab, "?", "dialog.keys")
        tab.page.keyboard.press("Escape")
        tab.page.wait_for_selector("dialog.keys", state="detached")
        check(tab)


@pytest.mark.long
def test_a_number_that_no_record_has(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.few(tmp_path)) as tab:
        for wrong in ("-1", "1e3", "99", "x"):
            tab.page.fill("#go", wrong)
            tab.page.press("#go", "Enter")
            tab.page.wait_for_selector("#go[aria-invalid]")
            assert "There is no record" in tab.page.locator("[role=status]").inner_text()
        assert "record/" not in tab.page.url


@pytest.mark.long
def test_back_and_reload_keep_the_screen(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.images(tmp_path, count=100)) as tab:
        press(tab, "r", ".lines")
        press(tab, "n", ".lines", "#/records?start=20")
        press(tab, "j", ".lines")
        press(tab, "Enter", ".record", "#/record/20")
        tab.page.go_back()
        tab.page.wait_for_selector(".lines")
        settle(tab)
        assert numbers(tab)[0] == "20"
        tab.page.reload()
        tab.page.wait_for_selector(".lines")
        settle(tab)
        assert numbers(tab)[0] == "20"
        check(tab)


@pytest.mark.long
def test_a_finding_leads_to_its_records(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.broken_images(tmp_path)) as tab:
        links = tab.page.locator(".finding .links a[href^='#/']")
        assert links.count() >= 1
        links.first.click()
        tab.page.wait_for_selector(".lines tbody tr, .record .field")
        settle(tab)
        assert tab.page.locator("h1").inner_text().startswith("Record")
        assert tab.wrong == [] or all("Failed to decode" not in each for each in tab.wrong)


@pytest.mark.long
def test_an_image_leads_to_its_record(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.images(tmp_path)) as tab:
        tab.scroll_through()
        link = tab.page.locator("figure.image a.whence").first
        name = link.inner_text()
        link.click()
        tab.page.wait_for_selector(".record img.whole")
        settle(tab)
        assert tab.page.locator("h1").inner_text() == name.capitalize()
        check(tab)


@pytest.mark.long
def test_records_by_a_value(tmp_path: Path, visit: Visit) -> None:
    tfs.write_table({"x": list(range(100)), "y": ["a", "b"] * 50}, f"{tmp_path}/train")
    with visit(f"{tmp_path}/train") as tab:
        press(tab, "r", ".lines")
        press(tab, "f", ".find")
        tab.page.select_option(".find select >> nth=0", label="x")
        tab.page.select_option(".find select >> nth=1", label="<")
        tab.page.fill(".find input", "25")
        tab.page.press(".find input", "Enter")
        tab.page.wait_for_url("**/#/find?**")
        settle(tab)
        assert tab.page.locator("h1").inner_text() == "x < 25"
        assert "25 of 100 records" in tab.page.locator(".list-head p").inner_text()
        assert len(numbers(tab)) == 20
        press(tab, "n", ".lines")
        tab.page.wait_for_url("**start=20*")
        tab.page.locator(".span").get_by_text("20 to 24 of 25").first.wait_for()
        assert len(numbers(tab)) == 5
        tab.page.fill(".find input", "words")
        tab.page.press(".find input", "Enter")
        tab.page.wait_for_selector(".finding.error")
        assert "is no number" in tab.page.locator(".finding.error").inner_text()


@pytest.mark.long
def test_sampling_anew(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.images(tmp_path)) as tab:
        assert "Seed 0" in tab.page.locator(".scope").inner_text()
        tab.page.click("text=Sample anew")
        tab.page.wait_for_selector("text=Seed 1")
        tab.page.reload()
        tab.page.wait_for_selector("#report .tiles")
        assert "Seed 1" in tab.page.locator(".scope").inner_text()
        check(tab)


@pytest.mark.long
def test_files_without_an_index(tmp_path: Path, visit: Visit) -> None:
    """Their records are those of the sample, and have no number."""
    with visit(datasets.compressed_files(tmp_path)) as tab:
        assert tab.page.locator("#go").count() == 0
        press(tab, "r", ".lines")
        assert "compressed" in tab.page.locator(".list-head").inner_text().lower()
        press(tab, "j", ".lines")
        press(tab, "Enter", ".record .field")
        press(tab, "n", ".record .field")
        assert "row 1" in tab.page.locator("h1").inner_text()
        check(tab)


@pytest.mark.long
def test_what_is_not_there_is_told(tmp_path: Path, visit: Visit) -> None:
    with visit(f"{tmp_path}/nothing") as tab:
        said = tab.page.locator(".finding.error").inner_text()
        assert "nothing" in said
        assert "Check the URL" in said
        datasets.few(tmp_path)
        tab.page.click("text=Try again")
        tab.page.wait_for_selector(".finding.error")


@pytest.mark.long
def test_records_that_are_no_examples(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.no_examples(tmp_path)) as tab:
        press(tab, "r", ".lines")
        press(tab, "j", ".lines")
        press(tab, "Enter", ".record .field")
        assert "no tf.train.Example" in tab.page.locator(".record").inner_text()
        check(tab)


@pytest.mark.long
def test_images_that_are_not_drawn_are_told(tmp_path: Path, visit: Visit) -> None:
    url = f"{tmp_path}/train"
    bomb, cut = datasets.bomb(20_000, 15_000), datasets.png(200, 200)[:100]
    with tfs.ShardedWriter(url, num_shards=1) as writer:
        writer.write({"bomb": bomb, "cut": cut})
    with visit(url) as tab:
        press(tab, "r", ".lines")
        listed = tab.page.locator(".lines tbody").inner_text()
        assert "20,000 x 15,000 pixels: it has too many pixels" in listed
        press(tab, "j", ".lines")
        press(tab, "Enter", ".record .field")
        tab.page.wait_for_selector(".field:has-text('cut') .fault")
        assert tab.page.locator("img").count() == 0
        assert "it has too many pixels. Download" in tab.page.locator(".record").inner_text()
        for name, data in (("bomb", bomb), ("cut", cut)):
            with tab.page.expect_download() as saving:
                tab.page.locator(
                    f".field:has(.name:text-is('{name}')) a:text-is('Download')"
                ).click()
            assert Path(saving.value.path()).read_bytes() == data


@pytest.mark.long
def test_five_thousand_features(tmp_path: Path, visit: Visit) -> None:
    with visit(datasets.many_features(tmp_path)) as tab:
        press(tab, "r", ".lines")
        assert "features more" in tab.page.locator(".rest").first.inner_text()
        press(tab, "j", ".lines")
        press(tab, "Enter", ".record .field")
        assert tab.page.locator(".field").count() == 200
        tab.page.click(".record .more")
        tab.page.locator(".field").nth(399).wait_for()
        assert tab.page.locator(".field").count() == 400
        check(tab)
