"""What the tables of a page need to be legible on a narrow one."""

from __future__ import annotations

import re
from itertools import cycle

CODE = re.compile(r"(<code>)([^<]*)(</code>)")
CELL = re.compile(r"(<td[^>]*>)(.*?)(</td>)", flags=re.DOTALL)
TABLE = re.compile(r"<table>.*?</table>", flags=re.DOTALL)
TITLE = re.compile(r"<th[^>]*>(.*?)</th>", flags=re.DOTALL)
WIDE = 5
"""A table of so many columns does not fit a phone; extra.css then shows each row as a list of named cells."""


def legible(html: str) -> str:
    """Keep words of code in tables on one line, which browsers break behind hyphens; name the cells of wide ones."""

    def kept(code: re.Match[str]) -> str:
        return code[1] + re.sub(r"[^\s<>]+", r'<span class="word">\g<0></span>', code[2]) + code[3]

    html = CELL.sub(lambda cell: CODE.sub(kept, cell[0]), html)
    return TABLE.sub(lambda table: _named_cells(table[0]), html)


def _named_cells(table: str) -> str:
    """A wide table whose cells know their columns' titles; another as it is."""
    titles = [re.sub(r"<[^>]*>", "", title).replace('"', "&quot;") for title in TITLE.findall(table)]
    if len(titles) < WIDE:
        return table
    columns = cycle(titles)
    marked = re.sub(r"<td", lambda _: f'<td data-title="{next(columns)}"', table)
    return marked.replace("<table>", '<table data-wide="">', 1)
