"""A chromium that can reach this machine only, the built site, and a JupyterLab."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tools.serve import server

ROOT = Path(__file__).parents[2]
SOURCES = ("mxlab", "book", "notebooks", "tools", "_config.yml", "_toc.yml", "package-lock.json")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = [os.environ.get("CHROMIUM"), shutil.which("chromium"), shutil.which("google-chrome")]
    arguments = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_playwright() as playwright:
        path = next((path for path in found if path), None)
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


def _newest(path: Path) -> float:
    files = [path] if path.is_file() else path.rglob("*")
    return max(
        (f.stat().st_mtime for f in files if f.is_file() and not _made(f)),
        default=0.0,
    )


def _made(path: Path) -> bool:
    made = ("__pycache__", "vendor", "guards", "_generated", ".ipynb_checkpoints")
    return any(part in made for part in path.parts[-4:-1]) and path.suffix != ".py"


@pytest.fixture(scope="session")
def html() -> Path:
    """The built book: the one that ``make book`` just made, or a new one."""
    if "MXLAB_SITE" in os.environ:
        return Path(os.environ["MXLAB_SITE"])
    index = ROOT / "_build" / "html" / "index.html"
    newest = max(_newest(ROOT / source) for source in SOURCES)
    if not index.exists() or index.stat().st_mtime < newest:
        build = [sys.executable, str(ROOT / "tools" / "build_book.py")]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            build, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
    return index.parent


@pytest.fixture(scope="session")
def site(html: Path) -> Iterator[str]:
    """The built book as ``make serve`` serves it, below a folder as on a project page."""
    with server(html, below="mxlab", quiet=True) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}/mxlab"
        serving.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab with settings of its own over a copy of the notebooks: (address, folder)."""
    home = tmp_path_factory.mktemp("lab")
    folder = home / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder)
    names = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    places = {f"JUPYTER_{name}": str(home / name) for name in names}
    for name in ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR"):
        places[name] = str(home / name)
    news = home / "JUPYTERLAB_SETTINGS_DIR" / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (news / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="),
        *("--ServerApp.disable_check_xsrf=True", "--LabApp.expose_app_in_browser=True"),
        f"--ServerApp.root_dir={folder}",
    ]
    env = {k: v for k, v in os.environ.items() if k not in ("MXLAB_BOOK", "VSCODE_PID")}
    log = (home / "log").open("w")
    jupyter = subprocess.Popen(
        command, env={**env, **places}, stdout=log, stderr=log, start_new_session=True
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/api", jupyter)
        yield address, folder
    finally:
        os.killpg(jupyter.pid, signal.SIGTERM)
        jupyter.wait(20)
        log.close()


def _wait_for(url: str, jupyter: subprocess.Popen[bytes], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert jupyter.poll() is None, "JupyterLab ended"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"no answer from {url}")
