"""Colours of generated texts: the text stays, HTML in it is escaped, and each line closes its elements."""

from __future__ import annotations

import html
import re

from made_runs import TEXT

from conformance.report import highlighting
from conformance.storage.snapshot_format import split_parts


def _plain(coloured: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", coloured))


def test_colours_change_no_character() -> None:
    parts = [part for _, part in split_parts(TEXT)]
    found = highlighting.highlighted(parts)
    assert [_plain(found[part]) for part in parts] == parts
    assert any('class="kt"' in each for each in found.values()), "no keyword is coloured"


def test_html_is_escaped() -> None:
    part = "def call(args):\n    x = '<script>alert(1)</script>' & y"
    coloured = highlighting.highlighted([part])[part]
    assert "<script" not in coloured
    assert _plain(coloured) == part


def test_each_line_closes_its_elements() -> None:
    part = 'def call(args):\n    """a text\n    of lines"""\n    /* open\n    return 1'
    for line in highlighting.highlighted([part])[part].split("\n"):
        assert line.count("<span") == line.count("</span>"), line


def test_an_open_text_colours_no_line_of_another_part() -> None:
    other = "def call(args):\n    return (buf0, )"
    alone = highlighting.highlighted([other])[other]
    assert highlighting.highlighted(['def call(args):\n    """open', other])[other] == alone


def test_lines_that_differ_in_numbers_have_the_colours_that_pygments_gives_each() -> None:
    lines = [
        *(
            f"  auto tmp{n} = at::vec::Vectorized<int{8 * n}_t>::loadu(in_ptr{n} + {n}L, {n}.5e-{n}f);"
            for n in (1, 2, 16)
        ),
        "for (int64_t x0=0L; x0<0x1fL; x0+=1L) { y = 'a1' < &b2; } // 3 < 4",
    ]
    general = highlighting._coloured([("cpp", line) for line in lines])
    assert general == highlighting._colour_each([("cpp", line) for line in lines])
    python = ["tmp3 = tl.load(x2 + 17, m4).to(tl.int1)", "tmp3 = tl.load(x2 + 18, m4).to(tl.int8)", "# 1 & 2 < 39;"]
    assert highlighting._coloured([("python", line) for line in python]) == highlighting._colour_each(
        [("python", line) for line in python]
    )
