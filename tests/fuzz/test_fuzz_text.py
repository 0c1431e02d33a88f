"""A sample of `make fuzz`: damaged text files."""

from __future__ import annotations

import logging

import pytest

from fuzz.fuzz_text import fuzz


def test_damaged_text_files(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        num_lines, num_bad, wrong = fuzz(60, 1)
    assert not wrong, wrong[0]
    assert 0 < num_bad < num_lines
