"""docs/environment.md lists the variables that the code reads: no more, no fewer, with the same words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet import env
from fleet.errors import VariableError

PAGE = Path(__file__).parents[3] / "docs" / "environment.md"


def test_the_page_and_the_table_agree() -> None:
    rows = re.findall(r"^\| `([A-Za-z_]+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert rows == [(variable.name, variable.kind, variable.doc) for variable in env.variables()]


def test_every_variable_of_the_table_is_read_somewhere() -> None:
    fleet, root = Path(env.__file__).parents[1], PAGE.parents[1]
    sources = [*fleet.parent.rglob("*.py"), *(root / "compat" / "src").rglob("*.py")]
    code = "".join(path.read_text() for path in sources if path.parent.name != "env")
    attributes = [name for name, value in vars(env).items() if isinstance(value, env.EnvVariable)]
    assert len(attributes) == len(list(env.variables()))
    read = set(re.findall(r"\benv\.(\w+)", code))
    assert [name for name in attributes if name not in read] == []


def test_an_empty_variable_counts_as_unset() -> None:
    assert env.PADDLE_TRAINER_ID.get({"PADDLE_TRAINER_ID": " "}) is None
    assert env.PADDLE_TRAINER_ID.get({}) is None
    assert env.PADDLE_TRAINER_ID.get({"PADDLE_TRAINER_ID": " 3 "}) == 3


def test_an_empty_variable_can_be_told_from_one_that_is_not_there() -> None:
    assert env.CUDA_VISIBLE_DEVICES.is_set({"CUDA_VISIBLE_DEVICES": ""})
    assert not env.CUDA_VISIBLE_DEVICES.is_set({})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        (env.PADDLE_TRAINER_ID, "-1"),
        (env.PADDLE_TRAINER_ID, "one"),
        (env.PADDLE_TRAINER_ID, "\uff11"),  # a digit, but not one of ours
        (env.TRAINING_ROLE, "WORKER"),
        (env.FLEET_INIT_TIMEOUT_S, "0"),
        (env.FLEET_INIT_TIMEOUT_S, "inf"),
    ],
)
def test_a_malformed_value_names_the_variable_and_the_rule(variable: env.EnvVariable[object], text: str) -> None:
    with pytest.raises(VariableError) as caught:
        variable.get({variable.name: text})
    assert str(caught.value) == f"{variable.name} must be {variable.kind}, got {text!r}"


def test_a_required_variable_says_why() -> None:
    with pytest.raises(VariableError, match="PADDLE_PORT is not set; a server needs it"):
        env.PADDLE_PORT.require("a server needs it", {})
