"""What the guide says of the lists is so."""

from __future__ import annotations

import re
from pathlib import Path

from public.listing import read_lists

PAGE = Path(__file__).parents[3] / "docs" / "paddle.md"


def test_there_are_as_many_scripts_as_the_guide_says() -> None:
    text = " ".join(PAGE.read_text().split())
    said = re.search(r"more than (\d+) scripts", text)
    assert said is not None
    scripts = read_lists()
    assert len(scripts) > int(said[1])
    versions = {script.version for script in scripts}
    assert {one.split(".")[0] for one in versions} == {"1", "2"}
    assert "book/word2vec" in {script.name for script in scripts}
