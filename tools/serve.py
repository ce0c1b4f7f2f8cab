"""Serve the built site on this machine: ``make serve``, or ``python tools/serve.py --below mxlab``.

As a host of pages does and Python's own server does not: an address that is not there answers with
404.html, a folder is never listed, and the site can lie below a folder of the host.
"""

import argparse
import functools
import re
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[1] / "_build" / "html"


class Handler(SimpleHTTPRequestHandler):
    """One request. ``below`` is the folder of the host at which the site lies, such as /mxlab/."""

    protocol_version = "HTTP/1.1"
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".json": "application/json",
        ".svg": "image/svg+xml",
    }

    def __init__(self, *args: Any, below: str = "/", quiet: bool = False, **named: Any) -> None:
        self.below, self.quiet = below, quiet
        super().__init__(*args, **named)

    def send_head(self) -> Any:
        """Lead the root of the host to the site; find files below it only."""
        path = urlsplit(self.path).path
        if path in ("/", self.below.rstrip("/")) and path != self.below:
            return self._lead_to(self.below)
        if not path.startswith(self.below) or "\0" in unquote(path):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def translate_path(self, path: str) -> str:
        """Return the file of an address, without the folder of the host."""
        return super().translate_path("/" + path[len(self.below) :])

    def list_directory(self, path: Any) -> None:
        """List nothing: a folder without a page is an address that is not there."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with the site's own page where an address is not there."""
        page = Path(self.directory) / "404.html"
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        # shown at any depth: its links hold from where the site is, here and not where it will be
        text = re.sub(r"<base [^>]*>\s*", "", page.read_text(encoding="utf-8"))
        body = text.replace("<head>", f'<head>\n<base href="{self.below}">', 1).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self) -> None:
        """Let a browser ask again after each build."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say what is not there; what is, is no news."""
        if not self.quiet and str(getattr(code, "value", code)).startswith(("4", "5")):
            super().log_request(code, size)

    def _lead_to(self, path: str) -> None:
        self.send_response(HTTPStatus.FOUND)
        self.send_header("Location", path)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Server(ThreadingHTTPServer):
    """A server that says nothing of a browser that went away in the middle of an answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of what is an error of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def server(folder: Path = SITE, *, port: int = 0, below: str = "", quiet: bool = False) -> Server:
    """Return a server of the site at ``folder``, on this machine only.

    ``port`` 0 takes a free one. Raises SystemExit, with one line, for a site that is not built, a
    ``below`` that is no folder's name, and a port that is taken.
    """
    if not (folder / "index.html").is_file():
        raise SystemExit(f"serve: no site in {folder}: make book builds it")
    name = below.strip("/")
    if name and (".." in name or not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", name, re.ASCII)):
        raise SystemExit(f"serve: below is {below!r}: expected a folder such as mxlab")
    place = f"/{name}/" if name else "/"
    handler = functools.partial(Handler, directory=str(folder), below=place, quiet=quiet)
    try:
        return Server(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SystemExit(f"serve: port {port}: {reason}; take another: PORT=8001") from None


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until Ctrl + C."""
    parser = argparse.ArgumentParser(prog="serve", description="Serve the built site.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--below", default="", metavar="FOLDER", help="of the host, as mxlab")
    parser.add_argument("--folder", type=Path, default=SITE, help="of the built site")
    args = parser.parse_args(argv)
    with server(args.folder, port=args.port, below=args.below) as serving:
        below = args.below.strip("/")
        place = f"http://127.0.0.1:{serving.server_port}/{below + '/' if below else ''}"
        print(f"serve: {place} (Ctrl + C ends it)", file=sys.stderr, flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)


if __name__ == "__main__":
    main()
