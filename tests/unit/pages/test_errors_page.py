"""docs/errors.md is true: it has every class, its texts are raised, and every error has a place or a remedy."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
import traceback

import pytest

from fleet import _version, errors
from support.jobs import clean_environ
from support.pages import error_page
from support.pages.error_sites import HOLE, sites

REMEDY = re.compile(
    r"; |\b(must|got|needs?|give|call|name|such as|expected|set|write|leave|use|start)\b", flags=re.IGNORECASE
)
"""What an error has that says itself what to do: a second half, or one of these words."""

QUOTES = re.compile(rf"(server|worker|optimizer|Clicks)( {HOLE}| 0)?: {HOLE}")
"""Another error, with who raised it."""

ADVICE = "write its entry into docs/errors.md (then `make docs`), or say in the message what to do"


def test_every_class_has_its_section() -> None:
    kinds = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.FleetError)]
    assert {kind.__name__ for kind in kinds} <= set(error_page.sections())


def test_headings_are_anchors_of_one_thing_each() -> None:
    anchors = [anchor for _, anchor, _ in error_page.entries()] + list(map(error_page.anchor, error_page.sections()))
    assert len(anchors) == len(set(anchors))


def test_links_within_the_page_lead_somewhere() -> None:
    anchors = {error_page.anchor(one) for one in re.findall(r"^#+ (.+)$", error_page.PAGE.read_text(), re.MULTILINE)}
    assert set(re.findall(r"\]\(#(.+?)\)", error_page.PAGE.read_text())) <= anchors


def test_links_to_other_pages_lead_to_their_headings() -> None:
    for page, anchor in re.findall(r"\]\((\w+\.md)(?:#(.+?))?\)", error_page.PAGE.read_text()):
        text = (error_page.PAGE.parent / page).read_text()
        assert not anchor or anchor in map(error_page.anchor, re.findall(r"^#+ (.+)$", text, re.MULTILINE)), anchor


def test_the_package_knows_the_texts_of_the_page() -> None:
    assert errors._TEXTS.read_text() == error_page.table(), "`make docs` writes it anew"


def test_every_error_says_what_to_do_or_is_explained() -> None:
    known = [errors._pattern(text) for _, _, texts in error_page.entries() for text in texts]
    known += map(errors._pattern, error_page.families())
    lost = [
        str(site)
        for site in sites()
        for text in site.texts
        if text.strip(f"{HOLE}:,.;() ")
        and not (REMEDY.search(text) or QUOTES.fullmatch(text) or any(one.search(text) for one in known))
    ]
    assert len(sites()) > 1000
    assert not lost, f"{ADVICE}: {lost}"


def test_every_text_of_the_page_is_raised_somewhere() -> None:
    said = [text for site in sites() for text in site.texts]
    texts = [text for _, _, texts in error_page.entries() for text in texts] + error_page.families()
    patterns = {text: errors._pattern(text) for text in texts}
    dead = [text for text, one in patterns.items() if not any(map(one.search, said))]
    assert not dead, f"docs/errors.md explains what nothing says any more: {dead}"


@pytest.mark.parametrize(
    ("error", "anchor"),
    [
        (errors.EndpointError("port 80 of ::1 is in use by another process; end it"), "a-port-is-in-use"),
        (errors.UsageError("server 10.0.0.1:80: worker 1 does not agree with the job: mode"), "workers-that-declare"),
        (errors.CheckpointError("c/a.json is damaged: it is not JSON (x)"), "a-checkpoint-that-is-damaged"),
        (errors.DeadlineError("server x: waited 9 s for step 3: no gradients from worker 1. Is"), "a-step-waits-for-a"),
        (
            errors.CommunicationError("server x: this process has no token; set FLEET_JOB_TOKEN to"),
            "a-call-without-the",
        ),
        (errors.VariableError("SLURM_X", "cannot be read: [3"), "a-variable-that-is-not-set-or-malformed"),
    ],
)
def test_an_error_leads_to_its_entry(error: errors.FleetError, anchor: str) -> None:
    assert error.page.startswith(f"docs/errors.md#{anchor}")
    assert error.__notes__ == [error.see] == [f"see {error.page} (fleet {_version.__version__})"]
    assert traceback.format_exception(error)[-1] == f"{error.see}\n"


def test_an_error_that_says_all_has_no_more_than_its_class() -> None:
    error = errors.StrategyError("strategy.x must be an int, got 3")
    assert (error.page, error.see, error.__notes__) == ("docs/errors.md#strategyerror", "", [])


def test_notes_of_others_stay() -> None:
    error = errors.EndpointError("cannot bind x: y")
    error.add_note("mine")
    assert error.__notes__ == ["mine", error.see]
    assert pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__


def test_the_interpreter_ends_with_where_it_is_explained() -> None:
    code = "from fleet.errors import EndpointError; raise EndpointError('cannot bind x: y')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean_environ(), timeout=60)
    assert ran.stderr.splitlines()[-2:] == [
        "fleet.errors.EndpointError: cannot bind x: y",
        f"see docs/errors.md#a-port-is-in-use (fleet {_version.__version__})",
    ]
