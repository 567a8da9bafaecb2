"""Where a store is tried: a fresh, empty folder or bucket for each test."""

from __future__ import annotations

from typing_extensions import Buffer as BytesLike

from tfio_store.storage import Storage, Store


class Site:
    """A fresh, empty place for the objects of one test.

    `put`, `get` and `names` go through the store itself. Override them with another client of the
    same service, if there is one: then the tests also show what others see. It goes to child
    processes, so it must pickle.

    Args:
        root (str): The URL of an empty folder or bucket, without a slash at its end.
        storage (Storage | None): How it is reached. Default None: as ``Storage()`` says.
        one_process (bool): Whether other processes see nothing of it, as of memory. Default False.
        page_objects (int): How many objects a page of a listing holds. Default 1000.

    Example:
        >>> from tfio_store.testing import Site
        >>> site = Site("memory://fresh", one_process=True)
        >>> site.put("x", b"one")
        >>> site.names(), site.get("x"), site.url("x")
        (['x'], b'one', 'memory://fresh/x')
        >>> store, path = site.open("x")
        >>> store.info(path).size
        3
    """

    def __init__(
        self,
        root: str,
        storage: Storage | None = None,
        *,
        one_process: bool = False,
        page_objects: int = 1000,
    ) -> None:
        self.root = root
        self.storage = Storage() if storage is None else storage
        self.one_process = one_process
        self.page_objects = page_objects

    def url(self, name: str = "") -> str:
        """Name an object.

        Args:
            name (str): Its name below the root. Default "": the root.

        Returns:
            str: What a person types.
        """
        return f"{self.root}/{name}" if name else self.root

    def open(self, name: str = "") -> tuple[Store, str]:
        """Open the store.

        Args:
            name (str): An object's name below the root. Default "": the root.

        Returns:
            tuple[Store, str]: The store, and the object's path in it.
        """
        return self.open_url(self.url(name))

    def open_url(self, url: str) -> tuple[Store, str]:
        """Open the store of any URL.

        Args:
            url (str): As a store's `address` names an object.

        Returns:
            tuple[Store, str]: The store, and the object's path in it.

        Example:
            >>> from tfio_store.testing import Site
            >>> store, path = Site("memory://fresh").open("x")
            >>> Site("memory://fresh").open_url(store.address(path))[1] == path
            True
        """
        return self.storage.open(url)

    def names(self) -> list[str]:
        """List all objects.

        Returns:
            list[str]: Their names below the root, sorted.
        """
        store, folder = self.open()
        return [info.path[len(folder) :].lstrip("/") for info in store.list(folder)]

    def put(self, name: str, data: BytesLike) -> None:
        """Write an object.

        Args:
            name (str): Its name below the root.
            data (bytes-like): All of it.
        """
        store, path = self.open(name)
        store.put(path, data)

    def get(self, name: str) -> bytes:
        """Read an object.

        Args:
            name (str): Its name below the root.

        Returns:
            bytes: All of it.
        """
        store, path = self.open(name)
        return store.get(path)[0]

    def is_seen(self, name: str) -> bool:
        """Say whether `get` finds objects of such a name, as some clients do not.

        Args:
            name (str): The name.

        Returns:
            bool: True.

        Example:
            >>> from tfio_store.testing import Site
            >>> Site("memory://fresh").is_seen("what?")
            True
        """
        return True
