"""``make serve``: the lost page at any depth, a folder of the host, and nothing outside it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.serve import main, server

LOST = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<base href="https://example.org/elsewhere/">\n</head><body>This page is not here</body></html>'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = tmp_path / "html"
    for name, text in {
        "index.html": "start",
        "404.html": LOST,
        "book/index.html": "book",
        "_static/face.mjs": "export {}",
        "_static/pyodide.wasm": "\0asm",
        "guards.json": "{}",
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    (tmp_path / "secret.txt").write_text("outside")
    return site


@contextmanager
def asked(folder: Path, below: str = "") -> Iterator[http.client.HTTPConnection]:
    with server(folder, below=below, quiet=True) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=5)
        try:
            yield connection
        finally:
            connection.close()
            serving.shutdown()
            thread.join()


def get(
    connection: http.client.HTTPConnection, path: str, method: str = "GET"
) -> tuple[int, str, http.client.HTTPMessage]:
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


@pytest.mark.parametrize("below", ["", "mxlab", "/team/mxlab/"])
def test_a_lost_address_shows_the_site_s_page_at_any_depth(folder: Path, below: str) -> None:
    root = f"/{below.strip('/')}/" if below else "/"
    with asked(folder, below) as connection:
        for path in ("nothing.html", "book/guards/kv-hd33.html", "book/no/", "a%00b", "_static"):
            status, text, headers = get(connection, root + path)
            if path == "_static":  # a folder: led to its slash, and never listed
                assert status == 301
                status, text, headers = get(connection, str(headers["Location"]))
            assert status == 404, path
            assert "This page is not here" in text and "face.mjs" not in text
            assert text.count("<base ") == 1 and f'<base href="{root}">' in text
            assert int(headers["Content-Length"]) == len(text.encode())
        status, text, headers = get(connection, root + "nothing.html", "HEAD")
        assert (status, text) == (404, "") and int(headers["Content-Length"]) > 100


def test_pages_are_below_the_folder_of_the_host(folder: Path) -> None:
    with asked(folder, "mxlab") as connection:
        assert get(connection, "/mxlab/")[:2] == (200, "start")
        assert get(connection, "/mxlab/book/")[:2] == (200, "book")
        assert get(connection, "/mxlab/book/index.html?q=1")[:2] == (200, "book")
        for path in ("/", "/mxlab"):
            status, _, headers = get(connection, path)
            assert (status, headers["Location"]) == (302, "/mxlab/")
        for path in ("/book/index.html", "/mxlabs/index.html", "/index.html"):
            assert get(connection, path)[0] == 404


@pytest.mark.parametrize("below", ["", "mxlab"])
def test_nothing_outside_the_site_is_served(folder: Path, below: str) -> None:
    root = f"/{below}/" if below else "/"
    with asked(folder, below) as connection:
        for path in ("../secret.txt", "%2e%2e/secret.txt", "book/../../secret.txt", "/etc/passwd"):
            status, text, _ = get(connection, root + path)
            assert status == 404 and "outside" not in text and "root:" not in text, path


def test_types_that_modules_and_webassembly_need(folder: Path) -> None:
    with asked(folder) as connection:
        kinds = {
            path: get(connection, path)[2]["Content-Type"]
            for path in ("/_static/face.mjs", "/_static/pyodide.wasm", "/guards.json")
        }
        assert list(kinds.values()) == ["text/javascript", "application/wasm", "application/json"]
        assert get(connection, "/book/index.html")[2]["Cache-Control"] == "no-cache"


def test_what_cannot_be_served_is_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make book builds it"):
        server(tmp_path / "nowhere")
    for below in ("a b", "../x", 'x"y', "a//b", ".."):
        with pytest.raises(SystemExit, match="expected a folder such as mxlab"):
            server(folder, below=below)
    with server(folder) as serving:
        port = str(serving.server_port)
        with pytest.raises(SystemExit, match=f"port {port}: .*PORT=8001"):
            main(["--folder", str(folder), "--port", port])
    with pytest.raises(SystemExit, match="port 99999999"):
        main(["--folder", str(folder), "--port", "99999999"])
