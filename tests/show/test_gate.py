"""Who may ask the server, and what its answers may do: each door that a stranger could try."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfio_store as tfs

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.show.served import Client, answers_by, look_at_all, served
from tfio_store.show.server.gate import HEADERS
from tfio_store.show.server.opening import Opening
from tfio_store.show.server.running import serving

PATHS = [
    "/",
    "/static/view/view.js",
    "/api/facts",
    "/api/records",
    "/api/record/0",
    "/media/item/0",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    url = f"{tmp_path_factory.mktemp('gate')}/train"
    tfs.write_table({"x": list(range(10))}, url)
    with served(url) as found:
        found.ready()
        yield found


def stranger(client: Client) -> Client:
    return Client(client.port, client.token)


def test_the_token_becomes_a_cookie_and_leaves_the_address(client: Client) -> None:
    answer = stranger(client).ask(f"/?token={client.token}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    parts = answer.headers["set-cookie"].lower().split("; ")
    assert parts[0] == f"tfio_store_{client.port}={client.token}".lower()
    assert {"httponly", "samesite=strict", "path=/"} <= set(parts)
    assert not any(part.startswith(("domain", "expires", "max-age")) for part in parts)


def test_the_token_is_long_and_never_the_same(client: Client, tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, f"{tmp_path}/t")
    with served(f"{tmp_path}/t") as other:
        assert len(client.token) >= 43
        assert other.token != client.token
        assert other.ask("/", headers={"Cookie": client.cookie}).status == 403


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "cookie", ["", "tfio_store_{port}=", "tfio_store_{port}={wrong}", "x={token}", "\xff=\xfe; ;="]
)
def test_without_the_token_nothing_is_answered(client: Client, path: str, cookie: str) -> None:
    wrong = client.token[:-1] + ("a" if client.token[-1] != "a" else "b")
    given = cookie.format(port=client.port, wrong=wrong, token=client.token)
    answer = stranger(client).ask(path, headers={"Cookie": given or None})
    assert answer.status == 403
    assert client.token.encode() not in answer.body


@pytest.mark.parametrize(
    "query", ["token=", "token=x", "TOKEN={token}", "token={token}x", "token=%FF", "a=1&" * 20]
)
def test_a_wrong_token_in_the_address(client: Client, query: str) -> None:
    answer = stranger(client).ask("/?" + query.format(token=client.token))
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_a_browsers_command_line_has_a_token_that_works_once(tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, f"{tmp_path}/t")
    answers = answers_by(Opening(f"{tmp_path}/t").open, look_at_all)
    with serving(answers) as running:
        once = running.url_for_once().partition("token=")[2]
        lasting = running.url.partition("token=")[2]
        assert once != lasting
        client = Client(running.port, once).log_in()
        assert client.cookie.endswith(f"={lasting}")
        assert Client(running.port, once).ask(f"/?token={once}").status == 403
        assert Client(running.port, once).ask("/", headers={"Cookie": once}).status == 403


def test_the_token_is_taken_at_the_root_only(client: Client) -> None:
    assert stranger(client).ask(f"/api/facts?token={client.token}").status == 403
    assert stranger(client).ask(f"/static/view/view.js?token={client.token}").status == 403


@pytest.mark.parametrize(
    "host",
    [
        None, "", "127.0.0.1", "127.0.0.1:1", "evil.example", "evil.example:{port}",
        "0.0.0.0:{port}",
        "127.0.0.1.evil.example:{port}", "127.0.0.1:{port}.evil.example", "localhost:{port}@evil",
        "127.0.0.2:{port}", "localhost", "[::]:{port}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/records", "/?token={token}"])
def test_another_host_is_refused(client: Client, host: str | None, path: str) -> None:
    given = None if host is None else host.format(port=client.port)
    answer = client.ask(path.format(token=client.token), headers={"Host": given})
    assert answer.status in (400, 403)  # 400 is what HTTP/1.1 says of no Host
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}"])
def test_this_machine_is_a_host(client: Client, host: str) -> None:
    answer = client.ask("/api/records", headers={"Host": host.format(port=client.port)})
    assert answer.status == 200


def test_two_hosts_are_refused(client: Client) -> None:
    head = (
        f"GET /api/records HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nHost: evil.example\r\n"
        f"Cookie: {client.cookie}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
        connection.sendall(head.encode())
        answer = connection.makefile("rb").read()
    assert answer.split(b" ")[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FROB"]
)
@pytest.mark.parametrize("path", ["/", "/api/records", "/nothing"])
def test_other_methods_are_refused(client: Client, method: str, path: str) -> None:
    answer = client.ask(path, method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_head_has_no_body(client: Client) -> None:
    answer = client.ask("/api/records", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_may_not_ask(client: Client, site: str) -> None:
    """Another port of this machine is the same site: the browser sends the cookie along."""
    asked = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert client.ask("/api/records", headers=asked).status == 403
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert client.ask("/api/records", headers=followed).status == 200


@pytest.mark.parametrize(
    "name",
    [
        "..", "../", "../model.py", "..%2fmodel.py", "%2e%2e/model.py", "%2e%2e%2fmodel.py",
        "vendor/../../model.py", "....//model.py", "/etc/passwd", "%2fetc%2fpasswd", "",
        "view.css%00", "view.css/", "VIEW.CSS", "..\\model.py", "model.py", "view",
        "vendor/d3.LICENSE",
    ],
)  # fmt: skip
def test_no_file_but_those_of_the_page(client: Client, name: str) -> None:
    answer = client.ask(f"/static/{name}")
    assert answer.status == 404
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/nothing", "/api", "/api/record/-1", "/api/record/1.5", "/api/record/1e3", "/api/record/x",
        "/api/record/%2e%2e", "/api/record/../../x", "/api/record/10", "/api/row/10",
        "/api/record/99999999999999999999999", "/api/record/%D9%A1",
        "/media/record/0/0/0", "/media/record/0/9/0", "/media/record/0/0/9", "/media/row/0/0/0",
        "/media/item/1", "/media/item/7", "/media/item/../x", "/media/record/0/0/s3:%2f%2fb",
    ],
)  # fmt: skip
def test_what_is_not_there(client: Client, path: str) -> None:
    assert client.ask(path).status in (400, 404)


@pytest.mark.parametrize(
    "query",
    [
        "count=0", "count=101", "count=-1", "count=x", "start=-1", "start=1e9",
        "start=" + "9" * 400,        "count=%E0%A5%A7",
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(client: Client, query: str) -> None:
    answer = client.ask(f"/api/records?{query}")
    assert answer.status == 400
    assert len(answer.body) < 300
    assert answer.json["error"].startswith(query.partition("=")[0])


@pytest.mark.parametrize(
    "query", ["seed=-1", "seed=4294967296", "blocks=0", "blocks=4097", "blocks=x"]
)
def test_wrong_samples_are_refused(client: Client, query: str) -> None:
    assert client.ask(f"/api/facts?{query}").status == 400


@pytest.mark.parametrize(
    "path", [*PATHS, "/nothing", "/api/records?start=-1", "/static/nothing", "/media/record/0/0/0"]
)
@pytest.mark.parametrize("known", [True, False])
def test_every_answer_has_the_headers(client: Client, path: str, known: bool) -> None:
    answer = (client if known else stranger(client)).ask(path)
    for name, value in HEADERS.items():
        assert answer.headers[name.lower()] == value
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


def test_the_policy_allows_no_script_or_style_within_the_page() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")


def test_media_are_of_the_list(client: Client) -> None:
    answer = client.ask("/media/item/0")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/png")


def test_only_this_machine_reaches_it(client: Client) -> None:
    """The socket is bound to 127.0.0.1: another of the machine's own addresses finds nobody."""
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.2", client.port), timeout=5)


def test_a_head_without_end_is_refused(client: Client) -> None:
    """It does not grow in the server's memory."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"X-Long: x\r\n" * 1_000_000)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(100).split(b" ")[1] in (b"400", b"431")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n"], ids=["nothing", "half a head"])
def test_idle_connections_keep_nobody_out(client: Client, sent: bytes) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(200):
            connection = socket.create_connection(("127.0.0.1", client.port), timeout=10)
            opened.enter_context(connection).sendall(sent)
        assert [client.ask("/api/records").status for _ in range(3)] == [200] * 3


def test_a_connection_that_has_asked_outlives_those_that_have_not(client: Client) -> None:
    first = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)

    def asked() -> int:
        first.request("GET", "/static/view/view.js", headers={"Cookie": client.cookie})
        with first.getresponse() as answer:
            assert answer.read()
            return answer.status

    with contextlib.closing(first), contextlib.ExitStack() as opened:
        assert asked() == 200
        same = first.sock
        for _ in range(70):
            opened.enter_context(socket.create_connection(("127.0.0.1", client.port), timeout=10))
        assert asked() == 200
        assert first.sock is same


def test_a_websocket_is_refused(client: Client) -> None:
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    assert client.ask("/api/facts", headers=upgrade).status == 200  # as if it had not asked
