"""What a worker was told outlives it, whatever becomes of the disk in between."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet.ps.held.holdings import Holdings
from fleet.ps.worker.life.answer_file import AnswerFile
from support.parity.training import joined, served, strategy


@pytest.fixture
def no_more_than() -> Iterator[object]:
    """Files of this process end at a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_an_answer_that_was_half_written_takes_no_other_with_it(tmp_path: Path, no_more_than: object) -> None:
    answers = AnswerFile(tmp_path / "answers")
    answers.put("first", 1)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert callable(no_more_than)
    no_more_than(answers.path.stat().st_size + 5)
    with pytest.raises(UsageError, match=r"cannot in .*answers: .*; make room on that disk"):
        answers.put("second", 2)
    assert "second" not in answers
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    answers.put("third", 3)
    answers.close()
    again = AnswerFile(answers.path)
    assert [again.get(name) for name in ("first", "second", "third")] == [1, None, 3]
    again.close()


def test_a_shrink_that_was_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the worker dies before its next push: a decay must not count twice."""
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    asked: list[object] = []
    shrink = Holdings.shrink

    def counted(*given: Any) -> tuple[int, int]:
        asked.append(given)
        return shrink(*given)

    monkeypatch.setattr(Holdings, "shrink", counted)
    with served(1) as (endpoints, _):
        for life in range(2):
            with joined(endpoints, strategy=strategy("async")) as one:
                if not life:
                    one.train(3)
                    one.worker.policy.flush()
                one.fleet.shrink(unseen_steps=100)
    assert len(asked) == 1
