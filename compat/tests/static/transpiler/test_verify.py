"""Programs that do not hold together are found right behind the pass that broke them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet_programs import layers
from fleet_programs.definition.operator import Operator
from fleet_programs.layers.io import fed
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program
from fleet_programs.program.verify import unmade, verify
from fleet_programs.transpiler import passes
from fleet_programs.transpiler.planning.verify import verified
from program_support.programs import building
from program_support.trained_programs import Pair, fit_a_line, mlp, schedule, tied, word2vec
from static.golden.cases import CASES, FOLDER

NAMED = r"^pass spoilt: block 0, operator {}: "


def _drop(block: Block, type: str) -> None:
    block.ops = [op for op in block.ops if op.type != type]


def _swap(block: Block) -> None:
    block.ops[0], block.ops[1] = block.ops[1], block.ops[0]


def _set(block: Block, name: str, /, **settings: Any) -> None:
    vars(block.vars[name]).update(settings)


def _op(block: Block, index: int = 0) -> Operator:
    return block.ops[index]


BROKEN: list[tuple[Callable[[Block], Any], int, str]] = [
    (lambda b: _drop(b, "mul"), 0, r"elementwise_add: 'fc_0.tmp_0' is read, but neither made before it, nor fed, nor"),
    (_swap, 0, "elementwise_add: 'fc_0.tmp_0' is read, but neither made"),
    (lambda b: _set(b, "x", is_data=False), 0, "mul: 'x' is read, but neither"),
    (lambda b: _set(b, "fc_0.w_0", persistable=False), 0, "mul: 'fc_0.w_0' is read"),
    (lambda b: b.vars.pop("x"), 0, "mul: the program has no variable 'x'"),
    (lambda b: b.vars.pop("fc_0.tmp_0"), 0, "mul: the program has no variable 'fc_0.tmp_0'"),
    (lambda b: _set(b, "fc_0.tmp_0", shape=(-1, 7)), 0, r"mul: .*'fc_0.tmp_0' is declared as float32\[-1, 7\], and wo"),
    (
        lambda b: _set(b, "fc_0.tmp_0", dtype="float64"),
        0,
        r"mul: .*is declared as float64\[-1, 1\], and would be",
    ),
    (lambda b: _set(b, "fc_0.tmp_0", kind="rows"), 1, "elementwise_add: X 'fc_0.tmp_0' has some rows only"),
    (lambda b: setattr(_op(b), "type", "mull"), 0, "there is no operator 'mull'"),
    (lambda b: _op(b).attrs.update(depth=3), 0, "operator mul has no attribute 'depth'"),
    (lambda b: _op(b).inputs.pop("Y"), 0, "operator mul: input Y takes one variable, got 0"),
    (lambda b: _op(b).inputs.update(X=_op(b).inputs.pop("X")), 0, r"mul: its slots are \['Y', 'X'\] .* takes them as"),
    (lambda b: _op(b).outputs.update(Out=["x"]), 0, "mul cannot write 'x', which it reads"),
    (lambda b: setattr(_op(b), "role", "leader"), 0, "role of mul must be one of forward, "),
]


@pytest.mark.parametrize(("spoil", "index", "says"), BROKEN)
def test_what_is_broken_is_named_with_pass_operator_variable_and_line(
    spoil: Callable[[Block], Any], index: int, says: str
) -> None:
    @verified
    def spoilt(program: Program) -> Program:
        other = program.clone()
        spoil(other.global_block())
        return other

    main, _ = fit_a_line()
    line = r"trained_programs.py:\d+: "
    with pytest.raises(UsageError, match=NAMED.format(index) + line + says):
        spoilt(main)
    verify(main)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lod": "nobody"}, "variable 'x' is ragged by 'nobody', which is not declared"),
        ({"name": "z"}, "variable 'z' stands under the name 'x'"),
    ],
)
def test_variables_that_are_broken_by_themselves(settings: dict[str, Any], says: str) -> None:
    main, _ = fit_a_line()
    _set(main.global_block(), "x", **settings)
    with pytest.raises(UsageError, match=f"^block 0: {says}$"):
        verify(main)


@pytest.mark.parametrize("value", ["0", "", None])
def test_it_is_switched_off_for_users(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv("FLEET_VERIFY_PROGRAMS")
    else:
        monkeypatch.setenv("FLEET_VERIFY_PROGRAMS", value)
    main, _ = fit_a_line()
    main.global_block().ops.reverse()
    assert verified(lambda program: program)(main) is main


def test_what_a_run_was_given_before_it_may_be_given_after() -> None:
    """Variables that are fed without being declared as data."""
    with building() as built:
        given = built.main.global_block().create_var("given", [-1, 4])
        layers.mean(given + fed("x", [-1, 4]))
    with pytest.raises(UsageError, match="'given' is read, but neither made"):
        verify(built.main)
    assert unmade(built.main) == {"given"}
    verify(built.main, {"given"})
    verified(lambda program: program.clone())(built.main)


def test_every_pass_is_verified() -> None:
    made = []
    for module in pkgutil.iter_modules(passes.__path__):
        loaded = importlib.import_module(f"{passes.__name__}.{module.name}")
        for name, function in inspect.getmembers(loaded, inspect.isfunction):
            is_pass = function.__module__ == loaded.__name__ and not name.startswith("_")
            if is_pass and inspect.signature(function).return_annotation == "Program":
                made.append(name)
                assert hasattr(function, "__wrapped__"), f"{name} is a pass and is not verified"
    assert len(made) == 16


@pytest.mark.parametrize("make", [fit_a_line, mlp, schedule, tied, word2vec])
def test_programs_of_layers_hold_together(make: Callable[[], Pair]) -> None:
    for program in make():
        verify(program)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"plan", "find_tables"}))
def test_golden_programs_hold_together(name: str) -> None:
    texts = re.split(r"^==== .*\n", (FOLDER / f"{name}.txt").read_text(), flags=re.MULTILINE)[1:]
    assert texts
    for text in texts:
        verify(Program.parse_from_string(text))
