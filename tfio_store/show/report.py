"""`report`: a look at a dataset, as one page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfio_store.dataset.checks import counted
from tfio_store.dataset.source import Source
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.show.facts import facts_of
from tfio_store.show.model import Facts, Finding
from tfio_store.show.page import frame_of, page_of, save_page
from tfio_store.show.sample import open_source, take_sample
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.write.progress import OnProgress, check_on_progress


@dataclass(frozen=True)
class Report:
    """A report of what a dataset looks like; notebooks show it as it is.

    Attributes:
        facts (Facts): All that the page says, as plain values: ``header``, ``scope``,
            ``findings``, ``features``, ``shards``, ``sizes``, ``damage`` and ``items``.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> found = tfs.report("train")
        >>> found.facts.scope.records, found.findings
        (3, ())
    """

    facts: Facts

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, the worst first."""
        return self.facts.findings

    @property
    def html(self) -> str:
        """The page, below 10 MB, which fetches nothing."""
        return self._page

    @cached_property
    def _page(self) -> str:
        return page_of(self.facts)

    def save(
        self,
        url: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> str:
        """Write the page to a file or object, whole or not at all.

        An older report is replaced; nothing else is.

        Args:
            url (str | PathLike): Where to, on any storage: "report.html", "s3://bucket/train.html".
            storage_options (dict | None): See `RecordReader`. Default None.
            storage (Storage | None): See `RecordReader`. Default None.

        Returns:
            str: The URL, without secrets.

        Raises:
            FileExistsError: There is something that is no report.
            OSError: The storage fails.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> path = tfs.report("train").save("train.html")
        """
        return save_page(self.html, url, given_storage(storage_options, storage))

    def __repr__(self) -> str:
        scope = self.facts.scope
        return (
            f"<Report of {self.facts.header.source}: {counted(scope.records, 'record')} "
            f"looked at, {counted(len(self.findings), 'finding')}>"
        )

    def _repr_html_(self) -> str:
        return frame_of(self.html)


def report(
    source: Source,
    *,
    blocks: int = 256,
    full: bool = False,
    seed: int = 0,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> Report:
    """See what a dataset holds: oddities, images, texts, distributions of values, shards, damage.

    The source is cut into ``blocks`` equal parts, and one random block of each is read. Damage is
    reported, and ends nothing. docs/report.md lists the findings.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        blocks (int): How many blocks to look at, each of about 1 MiB. Default 256.
        full (bool): Whether to look at everything. Default False.
        seed (int): The same seed looks at the same blocks. Default 0.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` so far. Default None.

    Returns:
        Report: What was found, and its page.

    Raises:
        OSError: Nothing of the source can be read.
        ManifestError: A manifest or index cannot be read.
        ValueError: ``blocks`` is below 1.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> tfs.report("train").save("train.html").endswith("train.html")
        True
    """
    check_on_progress(on_progress)
    storage = given_storage(storage_options, storage)
    opened = open_source(
        source, storage, compression=compression, max_record_bytes=max_record_bytes
    )
    sample = take_sample(
        opened,
        blocks=blocks,
        full=full,
        seed=seed,
        max_record_bytes=max_record_bytes,
        on_progress=on_progress,
    )
    return Report(facts_of(sample))
