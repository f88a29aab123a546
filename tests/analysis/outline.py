"""What a page or a table in HTML consists of."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br", "wbr", "img", "source", "meta", "link"}


class Outline(HTMLParser):
    """Tags, ids, addresses that would be loaded, and the text. It fails on a tag that is open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "an event handler"
            if name == "id":
                self.ids.append(value)
            elif name in ("src", "href", "srcset", "data") and tag != "a":
                self.loads.append(value)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        if not {"script", "style"} & {*self.open[-1:]}:
            self.text += data
