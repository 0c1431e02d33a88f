"""An animated terminal, as SVG, of a command that is run here.

    python website/terminal.py OUT.svg [--title TITLE] COMMAND ...
    python website/terminal.py OUT.svg --again                        # draws what was recorded in it anew

What is shown is what the command printed; the times between its lines are its own, cut down to a few seconds in all.
The first rows are there from the beginning, as they stood when the last of them came.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from html import escape, unescape
from pathlib import Path

LINE, CHAR, PAD, TOP, COLUMNS, SECONDS, AT_ONCE = 19, 7.85, 18, 46, 92, 5.0, 3
BEGIN_S = 0.5
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
STYLE = """
    .page { fill: #1b1e27; stroke: #565d73; stroke-width: 1; }
    text { font: 13px ui-monospace, "SF Mono", "Cascadia Code", "DejaVu Sans Mono", monospace; }
    text { fill: #d5d9e4; white-space: pre; }
    .prompt { fill: #8ea1ff; font-weight: 600; }
    .line { animation: show .01s linear both; }
    @keyframes show { from { opacity: 0 } to { opacity: 1 } }
    .passing { animation: show .01s linear both, hide .01s linear forwards; }
    @keyframes hide { to { opacity: 0 } }
    @media (prefers-reduced-motion: reduce) { .line { animation: none } .passing { display: none } }
"""


def recorded(command: list[str]) -> list[tuple[float, str]]:
    """Each line that the command printed, and when; CalledProcessError if it fails."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines = [(time.monotonic() - begin, ESCAPE.sub("", line.rstrip())) for line in process.stdout]
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, "\n".join(text for _, text in lines))
    return lines


def folded(lines: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Long lines on several, as a terminal folds them."""
    return [(at, text[i : i + COLUMNS]) for at, text in lines for i in range(0, max(1, len(text)), COLUMNS)]


def rows(lines: list[tuple[float, str]]) -> list[list[tuple[float, str]]]:
    """What stands in each row, one after the other: a line of progress takes the place of the one before it."""
    found: list[list[tuple[float, str]]] = []
    for at, text in folded(lines):
        if found and text.split()[:1] == found[-1][-1][1].split()[:1] == ["epoch"]:
            found[-1].append((at, text))
        else:
            found.append([(at, text)])
    return found


def svg(title: str, lines: list[tuple[float, str]]) -> str:
    """The lines as a picture; each comes when its time has come."""
    shown = rows(lines)
    width, height = round(2 * PAD + COLUMNS * CHAR), TOP + LINE * (len(shown) + 1) + 8
    first, last = shown[:AT_ONCE][-1][0][0], max(at for at, _ in lines)
    pace = SECONDS / ((last - first) or 1.0)
    dots = zip((22, 40, 58), ("#ff5f57", "#febc2e", "#28c840"), strict=True)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">',
        f"  <style>{STYLE}  </style>",
        f'  <rect class="page" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9"/>',
        *(f'  <circle cx="{x}" cy="20" r="5.5" fill="{colour}"/>' for x, colour in dots),
        f'  <text class="prompt" x="{PAD}" y="{TOP + 8}">$ {escape(title)}</text>',
    ]
    for number, row in enumerate(shown, 1):
        ends = [at for at, _ in row[1:]] + [None]
        for (at, text), end in zip(row, ends, strict=True):
            if end is not None and end <= first:
                continue
            kind, times = "line", f"{BEGIN_S + pace * (at - first):.2f}s" if at > first else "0s"
            if end is not None:
                kind, times = "line passing", f"{times},{BEGIN_S + pace * (end - first):.2f}s"
            parts.append(
                f'  <text class="{kind}" x="{PAD}" y="{TOP + 8 + LINE * number}" xml:space="preserve" '
                f'style="animation-delay:{times}">{escape(text)}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def read(picture: str) -> tuple[str, list[tuple[float, str]]]:
    """Title and lines of a picture that `svg` has drawn; what it left out stays out."""
    title = re.search(r'aria-label="(.*?)"', picture)
    assert title is not None
    found = re.findall(r'animation-delay:([\d.]+)s[^"]*">(.*?)</text>', picture)
    return unescape(title[1]), [(max(0.0, float(delay) - BEGIN_S), unescape(text)) for delay, text in found]


def main() -> None:
    """Run the command, and write the picture."""
    out, rest = sys.argv[1], sys.argv[2:]
    if rest == ["--again"]:
        Path(out).write_text(svg(*read(Path(out).read_text())))
        return
    title = " ".join(rest)
    if rest[0] == "--title":
        title, rest = rest[1], rest[2:]
    Path(out).write_text(svg(title, recorded(rest)))


if __name__ == "__main__":
    main()
