"""The page of example frames: whole in itself, escaped, boxes where they belong."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from PIL import Image

from embodied.report.examples import MISSED, RIGHT, WRONG, Example, Mark, Section, marked, write_examples

NASTY = '<script>alert("x")</script>'


class Balanced(HTMLParser):
    """Fails where a tag is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_boxes_and_words_are_drawn() -> None:
    black = np.zeros((60, 80, 3), np.uint8)
    picture = marked(black, [Mark((20, 30, 40, 50), "red block", WRONG)])
    red = (picture == (0xE0, 0x20, 0x20)).all(axis=-1)
    rows, columns = np.nonzero(red[29:])
    assert (columns.min(), columns.max(), rows.min(), rows.max()) == (19, 40, 0, 21)
    assert picture[:29].any()
    assert not black.any()
    both = marked(black, [Mark((20, 30, 40, 50), "b", WRONG), Mark((20, 30, 40, 50), "a", MISSED)])
    assert (both[50, 25] == (0xE0, 0x20, 0x20)).all()


def test_the_page_stands_alone(tmp_path: Path) -> None:
    rgb = np.full((24, 32, 3), 200, np.uint8)
    good = Example("table 1", (Mark((2, 12, 9, 20), "red block", RIGHT),), "There is a red block.", (), (), "a table")
    bad = Example(NASTY, (), NASTY, (NASTY, "on(a, b)"), ("blue ball",), NASTY)
    sections = [Section("clip on new_look", NASTY, ((rgb, bad), (rgb, good))), Section("two", "", ())]
    page = write_examples(tmp_path / "examples.html", "Heading", sections).read_text("utf-8")
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 6
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    pictures = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    assert [Image.open(io.BytesIO(base64.b64decode(data))).size for data in pictures] == [(32, 24)] * 2
    assert page.index("on(a, b)") < page.index("There is a red block.")
    assert page.count("of this false") == page.count("not named</dt>") == 1
