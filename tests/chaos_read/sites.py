"""Where is read: each kind of store, behind a proxy that lies when it is told to."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos import sites
from tests.servers.lying_proxy import Liar, lying_proxy
from tests.servers.place import Place
from tests.servers.web import Web, web_server

__all__ = ["SITES", "Site", "installed", "site"]

SITES = {
    "local": 8,
    "memory": 4,
    "moto": 3,
    "moto+obstore": 3,
    "ceph": 3,
    "ceph+obstore": 3,
    "gcs": 2,
    "gcs+obstore": 2,
    "azure": 2,
    "azure+obstore": 2,
    "http": 4,
}
"""How often each is drawn."""


@dataclass
class Site:
    """A store as it is (``place``), and as readers meet it (``met``); ``liar`` is None where there
    is no line to lie on."""

    place: Place
    met: Place
    liar: Liar | None
    web: Web | None = None

    def put(self, name: str, data: bytes) -> None:
        """By a new object, as writers do; not into the old one's bytes."""
        if self.web is not None:
            self.web.files[f"/{name}"] = data
            return
        store, path = self.place.open(name)
        output = store.open_output(path)
        output.write(data)
        output.commit()


def installed(name: str) -> bool:
    server = name.partition("+")[0]
    return server in ("memory", "http") or sites.installed(server)


@contextlib.contextmanager
def site(name: str) -> Iterator[Site]:
    """The store on a server of its own."""
    server, _, backend = name.partition("+")
    with contextlib.ExitStack() as stack:
        if server == "http":
            web = stack.enter_context(web_server())
            liar = stack.enter_context(lying_proxy(web.endpoint))
            yield Site(Place(web.endpoint), Place(liar.endpoint), liar, web)
        elif server == "memory":
            place = Place(f"memory://test-{uuid.uuid4().hex[:16]}")
            yield Site(place, place, None)
        else:
            place = stack.enter_context(sites.site(server))
            if server == "local":
                yield Site(place, place, None)
                return
            liar = stack.enter_context(lying_proxy(place.endpoint))
            yield Site(place, place.through(liar.endpoint, backend or "fsspec"), liar)
