"""deploy/: rules and dashboards name figures that there are, and promtool has nothing to say against them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.observe.metrics.catalogue import FIGURES

DEPLOY = Path(__file__).parents[3] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"


def named(text: str) -> set[str]:
    """The figures that a text names, without the endings that a histogram's series have."""
    found = set()
    for name in re.findall(r"\bfleet_[a-z_]+", text):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        found.add(base if FIGURES.get(base) is not None and FIGURES[base].kind == "histogram" else name)
    return found


def test_the_dashboard_shows_figures_that_there_are() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "fleet.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 10
    assert named(" ".join(queries)) <= set(FIGURES)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_rules_are_about_figures_that_there_are() -> None:
    text = (PROMETHEUS / "alerts.yml").read_text()
    assert len(named(text)) > 5
    assert named(text) <= set(FIGURES)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
@pytest.mark.parametrize(
    "command",
    [("check", "config", "prometheus.yml"), ("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")],
)
def test_promtool_agrees(command: tuple[str, ...]) -> None:
    told = subprocess.run(["promtool", *command], cwd=PROMETHEUS, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stdout + told.stderr
