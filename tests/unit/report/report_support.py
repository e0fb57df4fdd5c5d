"""What the tests of both pages check."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

ATTACK = "<script>alert(1)</script>"


class Outline(HTMLParser):
    """Collects tags, and checks that they close in the order they open."""

    void = ("meta", "link", "path", "circle")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(page: str, inner_urls: bool = False) -> None:
    """Needs nothing but itself (a figure may refer to its own parts), and its tables can be read aloud."""
    tags = Outline(page).seen
    assert not {tag for tag, _ in tags} & {"img", "iframe", "object"}
    assert [attributes for tag, attributes in tags if tag == "script"] == [{}], "one script, which stands in the page"
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page, "and is the only one that may run"
    links = [value for _, attributes in tags for name, value in attributes.items() if name in ("href", "src")]
    assert all(link.startswith(("#", "data:")) for link in links if link)
    assert not re.search((r"url\((?!#)" if inner_urls else r"url\(") + r"|@import|https?://", page)
    assert all("scope" in attributes for tag, attributes in tags if tag == "th")
