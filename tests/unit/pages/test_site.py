"""The pages of the site: links lead somewhere, no page is forgotten, plots show what their files say.

Without mkdocs, which `make site` installs; that fails on a dead link by itself, here or in what the code says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "website"))
try:
    import charts
    import outside
    import plots
    import reference
    import tables
    import terminal
finally:
    sys.path.remove(str(ROOT / "website"))

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/**/*.md")])


def headings(page: Path) -> Iterator[str]:
    for line in outside.prose(page.read_text()):
        if found := re.match(r"#+ (.*)", line):
            yield found[1]


def anchors(page: Path) -> set[str]:
    """As code hosts make them, and the slugify of mkdocs.yml; or said by hand."""
    text = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings(page)]
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in text}
    return made | set(re.findall(r'(?:id|name)="([^"]+)"', page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in outside.links(page.read_text()):
        where = (page.parent / target).resolve() if target else page
        is_made = where == ROOT / outside.NAMES
        assert where.exists() or is_made, f"{page.name} links to {target}"
        assert not anchor or where.suffix != ".md" or anchor in anchors(where), f"{page.name}: {target}#{anchor}"


def test_every_page_is_in_the_navigation_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = re.findall(r"([\w/]+(?:\.md|/))$", text, flags=re.MULTILINE)
    assert len(named) == len(set(named))
    folders = tuple(one for one in named if one.endswith("/"))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(page for page in there - set(named) if not page.startswith(folders)) == []


def test_an_entry_of_the_navigation_is_a_page_of_its_own() -> None:
    """A README or index would become the index of its section, and its entry would vanish."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = re.findall(r"- [^:\n]+: ([\w/]+\.md)$", text, flags=re.MULTILINE)
    assert [one for one in named if one.endswith(("/README.md", "/index.md"))] == []
    made = outside.pages()
    assert [one for one in named if one not in made and not (DOCS / one).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lists_and_tables_stand_after_an_empty_line(page: Path) -> None:
    """A code host does not mind; in the site they would become part of the paragraph."""
    before = ""
    for line in outside.prose(page.read_text()):
        begins = re.match(r"([-*]|1\.) \S|\|", line) is not None
        is_alone = not before or before.startswith((" ", "|", "#", "<")) or re.match(r"([-*]|\d+\.) ", before)
        assert not begins or is_alone, f"{page.name}: {line}"
        before = line


def test_pages_outside_are_part_of_the_site() -> None:
    found = outside.pages()
    assert found["paddle_names.md"].startswith("# Names of PaddlePaddle")
    assert {"repository/CHANGELOG.md", "repository/benchmarks/results/ctr.json.md"} <= set(found)
    assert "(../../parameter_server.md#modes)" in found["repository/examples/recommenders.md"]


@pytest.mark.parametrize(
    ("text", "path", "page", "wanted"),
    [
        ("[a](../README.md)", "docs/x.md", "x.md", "[a](index.md)\n"),
        ("[a](../README.md#install)", "docs/x.md", "x.md", "[a](install.md)\n"),
        ("[a](gpu.md#how-fast)", "docs/x.md", "x.md", "[a](gpu.md#how-fast)\n"),
        ("[a](../proto/ps.proto)", "docs/x.md", "x.md", "[a](repository/proto/ps.proto.md)\n"),
        ("[a](docs/gpu.md)", "CHANGELOG.md", "repository/CHANGELOG.md", "[a](../gpu.md)\n"),
        ("[a](https://x.org) [b](#c)", "docs/x.md", "x.md", "[a](https://x.org) [b](#c)\n"),
        ("```\n[a](../README.md)\n```", "docs/x.md", "x.md", "```\n[a](../README.md)\n```\n"),
    ],
)
def test_links_are_led_to_the_sites_pages(text: str, path: str, page: str, wanted: str) -> None:
    assert outside.rewritten(text, path, page) == wanted


@pytest.mark.parametrize("chart", list(plots.charts()), ids=lambda chart: chart.name)
def test_a_plot_shows_what_its_results_say(chart: charts.Chart) -> None:
    assert (plots.FOLDER / f"{chart.name}.svg").read_text() == charts.svg(chart), "run make docs"
    assert all((plots.RESULTS / source).exists() for source in chart.sources)
    assert f"images/plots/{chart.name}.svg" in (DOCS / "plots.md").read_text() + (DOCS / "zoo.md").read_text()


def test_the_recorded_terminal_is_drawn_as_terminals_are() -> None:
    picture = (DOCS / "images" / "demo.svg").read_text()
    assert terminal.svg(*terminal.read(picture)) == picture, "run website/terminal.py docs/images/demo.svg --again"


REFERENCE = {page.name: page.read_text() for page in sorted((DOCS / "api").glob("*.md")) if page.name != "index.md"}


def test_every_public_name_is_in_the_reference_with_an_example() -> None:
    shown, without = set(), []
    for text in REFERENCE.values():
        for line, module, name in reference.documented(text):
            shown.add((module, name))
            below = "\n".join(text.splitlines()[line + 1 :])
            if "```python\n" not in re.split(r"\n#+ ", below)[0]:
                without.append(f"{module}.{name}")
    assert without == []
    public = {(module, name) for module, names in reference.public_modules().items() for name in names}
    aliases = {
        (module, name)
        for module, name in public - shown
        if any(reference.same(module, name, reference.value_of(*one)[0]) for one in shown if one[0] == module)
    }
    assert sorted(public - shown - aliases) == []
    assert sorted(shown - public) == []


@pytest.mark.parametrize("page", REFERENCE)
def test_a_page_of_the_reference_is_filled(page: str) -> None:
    text = reference.filled(REFERENCE[page])
    assert len(text) > len(REFERENCE[page])
    assert text.count("```") % 2 == 0


def test_cells_of_a_wide_table_name_their_columns_for_phones() -> None:
    def table(num_columns: int) -> str:
        titles = "".join(f"<th>a <em>title</em> {index}</th>" for index in range(num_columns))
        cells = "".join(f"<td>{index}</td>" for index in range(num_columns))
        return f"<table><thead><tr>{titles}</tr></thead><tbody><tr>{cells}</tr><tr>{cells}</tr></tbody></table>"

    assert tables.legible(table(3)) == table(3)
    named = tables.legible(f"{table(3)}<p>and</p>{table(6)}")
    assert named.startswith(f'{table(3)}<p>and</p><table data-wide="">')
    assert re.findall(r'data-title="([^"]*)">(\d)', named) == 2 * [(f"a title {n}", str(n)) for n in range(6)]


def test_the_site_follows_the_system_until_a_reader_chooses() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    first = re.search(r'palette:\n    - media: "([^"]*)"', text)
    assert first is not None
    assert first[1] == "(prefers-color-scheme)"
