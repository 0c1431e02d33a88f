"""An animated terminal, as SVG, of a command that is run here: `python website/terminal.py OUT.svg [--title TITLE] COMMAND ...`.

What is shown is what the command printed; the times between its lines are its own, cut down to a few seconds in all.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from html import escape
from pathlib import Path

LINE, CHAR, PAD, TOP, COLUMNS, SECONDS = 19, 7.85, 18, 46, 112, 5.0
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
STYLE = """
    .page { fill: #1b1e27; }
    text { font: 13px ui-monospace, "SF Mono", "Cascadia Code", "DejaVu Sans Mono", monospace; fill: #d5d9e4; white-space: pre; }
    .prompt { fill: #8ea1ff; font-weight: 600; }
    .bar { fill: #8a91a5; text-anchor: middle; }
    .line { animation: show .01s linear both; }
    @keyframes show { from { opacity: 0 } to { opacity: 1 } }
    @media (prefers-reduced-motion: reduce) { .line { animation: none } }
"""


def recorded(command: list[str]) -> list[tuple[float, str]]:
    """Each line that the command printed, and when; CalledProcessError if it fails."""
    begin, lines = time.monotonic(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append((time.monotonic() - begin, ESCAPE.sub("", line.rstrip())))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, "\n".join(text for _, text in lines))
    return lines


def folded(lines: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Long lines on several, as a terminal folds them."""
    return [(at, text[i : i + COLUMNS]) for at, text in lines for i in range(0, max(1, len(text)), COLUMNS)]


def svg(title: str, lines: list[tuple[float, str]]) -> str:
    """The lines as a picture; each comes when its time has come."""
    shown = folded(lines)
    width, height = round(2 * PAD + COLUMNS * CHAR), TOP + LINE * (len(shown) + 1) + 8
    last = max(at for at, _ in shown) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
        f"  <style>{STYLE}  </style>",
        f'  <rect class="page" width="{width}" height="{height}" rx="9"/>',
        *(
            f'  <circle cx="{22 + 18 * i}" cy="20" r="5.5" fill="{c}"/>'
            for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'  <text class="prompt" x="{PAD}" y="{TOP + 8}">$ {escape(title)}</text>',
    ]
    for number, (at, text) in enumerate(shown, 1):
        y, delay = TOP + 8 + LINE * number, 0.5 + SECONDS * at / last
        parts.append(
            f'  <text class="line" x="{PAD}" y="{y}" xml:space="preserve" style="animation-delay:{delay:.2f}s">'
            f"{escape(text)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Run the command, and write the picture."""
    out, rest = sys.argv[1], sys.argv[2:]
    title = " ".join(rest)
    if rest[0] == "--title":
        title, rest = rest[1], rest[2:]
    Path(out).write_text(svg(title, recorded(rest)))


if __name__ == "__main__":
    main()
