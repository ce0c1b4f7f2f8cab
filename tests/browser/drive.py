"""What the browser tests share: a page that is watched, axe-core, and a patient look at a URL."""

from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, Route

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


class Watched:
    """A page with what it logged as an error and what it asked of other hosts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.outside: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def clean(self) -> bool:
        """Tell whether nothing was logged and nothing left the machine; else fail saying what."""
        assert self.outside == [], "requests that would have left this machine"
        assert self.errors == []
        return True


def watch(context: BrowserContext) -> Watched:
    """Open a page; requests to anything but this machine are refused and remembered."""
    page = context.new_page()
    watched = Watched(page)

    def route(route: Route) -> None:
        url = urlsplit(route.request.url)
        if url.scheme in ("data", "blob") or url.hostname == "127.0.0.1":
            route.continue_()
        else:
            watched.outside.append(route.request.url)
            route.abort()

    page.route("**/*", route)
    page.set_default_timeout(20_000)
    return watched


#: all rows of a grid are drawn alike: axe measures the first of each band of 32
SAME_ROWS = {"fromShadowDom": [".mxlab-face", "table.grid tbody tr:not(:nth-child(32n + 1))"]}


TWO_FRAMES = """() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
})"""


def axe(page: Page, scope: str = ".mxlab-explorer", *, rule: str = "") -> list[str]:
    """Return axe-core's violations inside ``scope``; fail when it looked at nothing.

    ``rule`` is one to look at alone, such as color-contrast, all that another theme changes.
    """
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=AXE)
    context = {"include": [[scope]], "exclude": [SAME_ROWS]}
    rules = {"runOnly": [rule]} if rule else {}
    page.evaluate(TWO_FRAMES)  # a ResizeObserver speaks after the frame of the new size
    found = page.evaluate("([context, rules]) => axe.run(context, rules)", [context, rules])
    assert rule or len(found["passes"]) > 10
    assert any(passed["id"] == (rule or "color-contrast") for passed in found["passes"])
    return [f"{v['id']}: {[n['html'][:200] for n in v['nodes']][:3]}" for v in found["violations"]]
