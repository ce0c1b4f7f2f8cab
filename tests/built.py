"""The built site as its files are: elements and attributes of each page, weights, targets."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Element:
    """One start tag."""

    name: str
    attributes: dict[str, str]


@dataclass
class PageFile(HTMLParser):
    """One page of the site, read."""

    path: Path
    elements: list[Element] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append(Element(tag, attributes))
        self.ids |= {attributes[name] for name in ("id", "name") if name in attributes}

    def all(self, name: str) -> Iterator[dict[str, str]]:
        return (one.attributes for one in self.elements if one.name == name)

    def target(self, link: str) -> Path | None:
        """The file that a link means; None where it leaves the site or is data."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        return (self.path.parent / unquote(parts.path)).resolve() if parts.path else self.path

    def loads(self) -> set[Path]:
        """What a browser fetches with the page, before anything is touched."""
        links = [one["src"] for one in self.all("script") if "src" in one]
        links += [one["src"] for one in self.all("img")]
        links += [one["href"] for one in self.all("link") if _fetched(one)]
        return {path for path in map(self.target, links) if path is not None}


def _fetched(link: dict[str, str]) -> bool:
    return bool({"stylesheet", "preload", "icon"} & set(link.get("rel", "").split()))


@cache
def pages(html: Path) -> dict[str, PageFile]:
    """Every page, by its path in the site; index.html at the top only leads on."""
    found = sorted(html.rglob("*.html"))
    kept = [path for path in found if "_static" not in path.parts and path.parent != html]
    kept += [html / name for name in ("search.html", "genindex.html", "404.html")]
    return {path.relative_to(html).as_posix(): PageFile(path) for path in kept}


@cache
def weight(path: Path) -> int:
    """Bytes on the wire: fonts and images are compressed already."""
    data = path.read_bytes()
    done = path.suffix in (".woff2", ".woff", ".png", ".jpg", ".webp")
    return len(data) if done else len(gzip.compress(data, 6))
