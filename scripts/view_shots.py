"""Takes the pictures of `tfio-store view` for docs/report.md: `make report-shots`."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from scripts.report_shots import TARGET, damage, make_dataset
from tests.show.browsing import chromium, opened
from tests.show.served import Client, viewed

SCREENS = {
    "view-records.png": ("#/records?start=20", ".lines tbody tr", 1100, False),
    "view-find.png": ("#/find?feature={score}&op=%3D&value=nan", ".lines tbody tr", 1100, True),
    "view-narrow.png": ("#/records", ".lines tbody tr", 400, True),
}
"""Of each: the place, what must be there, the width, and whether it is dark."""


def take(browser: Any, client: Client, features: dict[str, int]) -> None:
    address = f"http://127.0.0.1:{client.port}/"
    for name, (place, wait, width, dark) in SCREENS.items():
        with opened(browser, f"{address}?token={client.token}", width=width, dark=dark) as tab:
            page = tab.page
            page.wait_for_selector("#report .tiles")
            page.goto(address + place.format(**features))
            page.wait_for_selector(wait)
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(500)
            image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            image.quantize(128, dither=Image.Dither.NONE).save(TARGET / name, optimize=True)
            print(f"{name}: {(TARGET / name).stat().st_size:,} bytes; {tab.wrong or 'fine'}")


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = make_dataset(Path(folder))
        damage(url)
        with viewed(url, blocks=64) as client, chromium() as browser:
            told = client.ready()["facts"]
            take(browser, client, {f["name"]: i for i, f in enumerate(told["features"])})


if __name__ == "__main__":
    main()
