"""The datasets in a folder, when a dataset is named as the folder is.

Readers take the name of a folder for the one dataset in it. A dataset of that name beside the
folder would hide the one inside from them.
"""

from __future__ import annotations

import errno

from tfio_store.dataset.folder import Folder
from tfio_store.dataset.names import MANIFEST_SUFFIX, begun, committed
from tfio_store.dataset.source_names import grouped
from tfio_store.storage import Store
from tfio_store.storage.store import names_in

__all__ = ["check_hides_nothing", "check_no_datasets", "look_inside"]

_MANY = 1000
"""Of a folder with so many names, `names_in` may leave some out."""

_SHOWN = 10


def look_inside(store: Store, path: str) -> list[str]:
    """The names in the folder of this path, which may not be there. Mostly one request. All
    manifests are among them. Where nothing may be listed, there is nothing."""
    names = names_in(store, path, "_")
    if len(names) >= _MANY and not committed(names):
        names += Folder(store, path).names(f"_*{MANIFEST_SUFFIX}")
    return names


def check_hides_nothing(store: Store, path: str, inside: list[str]) -> None:
    """IsADirectoryError if whoever reads ``path`` gets what is ``inside`` the folder of this name,
    and would get the new dataset of this name in its place.

    A folder with several datasets stands for none of them.
    """
    datasets = committed(inside)
    if len(datasets) == 1:
        raise _holding(store, path, datasets)
    if datasets or begun(inside):
        return
    groups, others = grouped(name for name in inside if not name.endswith("/"))
    if len(groups) == 1 and not others and not groups[0].missing:
        raise IsADirectoryError(
            errno.EISDIR,
            f"is a folder with the files {groups[0].said}, and whoever reads the name gets these; "
            "write the dataset under another name",
            store.url(path),
        )


def check_no_datasets(store: Store, path: str) -> None:
    """IsADirectoryError if there are datasets in the folder of this path, unfinished ones too."""
    inside = look_inside(store, path)
    datasets = sorted({*committed(inside), *begun(inside)})
    if datasets:
        raise _holding(store, path, datasets)


def _holding(store: Store, path: str, datasets: list[str]) -> OSError:
    url = store.url(path).rstrip("/")
    words = f"is a folder with the dataset {datasets[0]!r}; name {url}/{datasets[0]}"
    if len(datasets) > 1:
        listed = ", ".join(f"{url}/{name}" for name in datasets[:_SHOWN])
        words = f"is a folder with several datasets; name one of {listed}"
        words += ", …" if len(datasets) > _SHOWN else ""
    return IsADirectoryError(errno.EISDIR, words, url)
