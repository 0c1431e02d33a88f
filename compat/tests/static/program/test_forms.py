"""The text and JSON forms of a program: whatever is written reads back to an equal program; nonsense is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.errors import UsageError, UsageTypeError
from fleet_programs import layers, optimizer
from fleet_programs.backward.backward import append_backward
from fleet_programs.definition.dtypes import DTYPES
from fleet_programs.definition.kinds import ROWS, TENSOR
from fleet_programs.definition.operator import ROLES, Operator
from fleet_programs.expressions import names
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.io import data, fed
from fleet_programs.operators import definition, known
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import check_bodies
from fleet_programs.program.json_form import to_json
from fleet_programs.program.program import Program, program_guard
from fleet_programs.program.text import to_text
from fleet_programs.program.variable import Parameter, Penalty, Variable
from program_support.programs import building
from program_support.programs_compared import difference, same

FORMS: list[tuple[Callable[[Program], str], Callable[[str], Program]]] = [
    (to_text, Program.parse_from_string),
    (to_json, Program.from_json),
]

any_name = st.text(min_size=1, max_size=8) | st.sampled_from(
    ["fc_0.w_0", "x", "x@GRAD", "in", "true", "data", "a b", "}", "#"]
)
number = st.floats() | st.sampled_from([1e-45, -0.0, 5e-324, math.inf, 1e22]) | st.integers()
scalar = st.none() | st.booleans() | number | st.text(max_size=6)
value = st.recursive(scalar, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
note = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
shape = st.lists(st.integers(-1, 2**40), max_size=4)
dtype = st.sampled_from(list(DTYPES))


@st.composite
def variables(draw: st.DrawFn, block: Block, name: str) -> Variable:
    if draw(st.booleans()):
        penalty = draw(st.none() | st.builds(Penalty, st.sampled_from(["l1", "l2"]), st.floats(allow_nan=False)))
        flags = {key: draw(st.booleans()) for key in ("trainable", "need_clip", "is_distributed")}
        var: Variable = Parameter(
            block, name, draw(shape), draw(dtype), learning_rate=draw(st.floats()), regularizer=penalty, **flags
        )
    else:
        var = Variable(block, name, draw(shape), draw(dtype), kind=draw(st.sampled_from([TENSOR, ROWS])))
    for key in ("persistable", "stop_gradient", "is_data"):
        setattr(var, key, draw(st.booleans()))
    var.lod = draw(st.none() | any_name)
    return var


def _like(usual: Any) -> st.SearchStrategy[Any]:
    """Values that an attribute may have: of the type that it has when it is left out."""
    if isinstance(usual, list):
        return st.lists(_like(usual[0]) if usual else value, max_size=3)
    kinds: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(),
        float: number,
        str: st.text(max_size=6) | dtype,
        type(None): st.none(),
    }
    return st.just(usual) | kinds[type(usual)]


@st.composite
def added(draw: st.DrawFn, block: Block, visible: list[str]) -> None:
    """Try to add an operator of any type to a block, with outputs of its own; what does not fit stays out."""
    form = definition(draw(st.sampled_from(known())))

    def slots(marked: tuple[str, ...], names: st.SearchStrategy[str]) -> dict[str, list[str]]:
        found = {}
        for slot in marked:
            low, high = {"*": (0, 3), "?": (0, 1)}.get(slot[-1], (1, 1))
            found[slot.rstrip("?*")] = draw(st.lists(names, min_size=low, max_size=high, unique=True))
        return found

    def may_come(name: str) -> bool:
        """It is new, and no gradient that is there already bears its name: that would be checked against it."""
        others = (known for each in block.program.blocks for known in each.vars)
        return not block.has_var(name) and all(known.split("@GRAD")[0] != name for known in others)

    new = any_name | st.integers().map(lambda n: f"out_{n}")
    attrs = {name: draw(_like(usual)) for name, usual in form.attrs.items() if draw(st.booleans())}
    before, count = dict(block.vars), len(block.ops)
    try:
        op = block.append_op(
            form.type,
            slots(form.inputs, st.sampled_from(visible)),
            slots(form.outputs, new.filter(may_come)),
            attrs,
            role=draw(st.sampled_from(ROLES)),
        )
        check_bodies(block.program)  # as one that reads does
    except UsageError:
        block.vars = before
        del block.ops[count:]
        return
    op.scope, op.callsite = draw(st.just("") | any_name), "a.py:1"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    program = Program()
    program.random_seed = draw(st.integers(0, 2**64))
    program.notes = draw(st.dictionaries(any_name, note, max_size=2))
    visible: list[list[str]] = []
    for index in range(draw(st.integers(1, 3))):
        block = program.global_block() if index == 0 else program.create_block(draw(st.integers(-1, index - 1)))
        for name in draw(st.lists(any_name, max_size=4, unique=True)):
            block.vars[name] = draw(variables(block, name))
        visible.append([*block.vars, *(visible[block.parent] if block.parent >= 0 else [])])
        for _ in range(draw(st.integers(0, 4)) if visible[-1] else 0):
            draw(added(block, list(dict.fromkeys([*visible[-1], *block.vars]))))
    return program


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_random_programs_read_back(program: Program) -> None:
    for write, read in FORMS:
        text = write(program)
        again = read(text)
        assert difference(program, again) is None
        assert write(again) == text
        assert "a.py:1" not in text


def real() -> tuple[Program, Program]:
    main, startup = Program(), Program()
    main.random_seed = 3
    with program_guard(main, startup), names.guard(), names.name_scope("encoder"):
        x = data("x", [32])
        data("words", [1], dtype="int64", lod_level=1)
        layer = LayerBuilder("fc")
        weight = layer.parameter(None, [32, 1])
        loss = layer.block.create_var("loss", [1])
        wide = layer.apply("mul", {"X": x, "Y": weight})
        both = layer.apply("sum", {"X": [wide, wide]})
        layer.op("mean", {"X": both}, {"Out": loss})
        append_backward(loss)
    return main, startup


WRITTEN = [write(real()[0]) for write, _ in FORMS]


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1), st.integers(0, 3), st.text(max_size=2))
def test_damaged_forms_are_refused_or_read(where: float, num_lost: int, more: str) -> None:
    """Whatever a few characters do to a form, there is a program or a UsageError."""
    for text, (_, read) in zip(WRITTEN, FORMS, strict=True):
        at = int(where * len(text))
        with suppress(UsageError):
            read(text[:at] + more + text[at + num_lost :])


@pytest.mark.parametrize(("write", "read"), FORMS)
def test_a_real_program_reads_back(write: Any, read: Any) -> None:
    for program in real():
        assert same(program, read(write(program)))


def test_the_text_is_the_one_that_people_know() -> None:
    main, startup = real()
    lines = [line.strip() for line in to_text(main).split("\n")]
    assert lines[:6] == [
        "program random_seed=3",
        "block 0 {",
        "data x : float32[-1, 32]",
        "data words@LOD : int64[-1]",
        "data words : int64[-1, 1] lod=words@LOD",
        "param fc_0.w_0 : float32[32, 1]",
    ]
    ops = [line.split(" in ")[0] for line in lines]
    assert "{Out=fc_0.tmp_0} = mul(X=x, Y=fc_0.w_0)" in ops
    assert "{Y@GRAD=fc_0.w_0@GRAD} = mul_grad(X=x, Y=fc_0.w_0, Out@GRAD=fc_0.tmp_0@GRAD) @backward" in ops
    assert "{Out=fc_0.w_0} = uniform_random() shape=[32, 1]" in to_text(startup)
    assert repr(main.global_block().vars["fc_0.w_0"]) == "param fc_0.w_0 : float32[32, 1]"
    assert str(Operator("relu", {"X": ["x"]}, scope="encoder/")) == 'relu(X=x) in "encoder/"'
    assert str(Operator("no such", attrs={"a": (1, np.float32(0.5))})) == '"no such"() a=[1, 0.5]'


def test_every_field_is_compared() -> None:
    """A field that is added to a variable or an operator must find its way into the forms."""
    block = Program().global_block()
    own = {"block", "name", "shape", "dtype", "kind", "lod", "persistable", "stop_gradient", "is_data"}
    assert set(vars(Variable(block, "x"))) == own
    more = {"trainable", "learning_rate", "regularizer", "need_clip", "is_distributed"}
    assert set(vars(Parameter(block, "x", [1]))) == own | more
    assert set(vars(Operator("mul"))) == {"type", "inputs", "outputs", "attrs", "role", "callsite", "scope", "parts"}


def test_same_sees_small_differences() -> None:
    main, startup = real()
    assert not same(main, startup)
    for change in (
        lambda p: setattr(p, "random_seed", 4),
        lambda p: p.notes.update(a=1),
        lambda p: p.create_block(),
        lambda p: setattr(p.global_block().vars["x"], "stop_gradient", False),
        lambda p: p.global_block().vars.pop("words"),
        lambda p: p.global_block().ops[0].attrs.update(x_num_col_dims=1.0),
        lambda p: p.global_block().ops.pop(),
        lambda p: setattr(p.global_block().ops[0], "scope", ""),
    ):
        other = main.clone()
        assert same(main, other)
        change(other)
        assert difference(main, other)
    explicit = main.clone()
    explicit.global_block().ops[0].attrs["x_num_col_dims"] = 1
    assert same(main, explicit), "a default that is written out says nothing new"


def test_what_has_no_form_is_refused_when_written() -> None:
    program = Program()
    program.notes["x"] = math.inf
    with pytest.raises(UsageError, match="note 'x' is not JSON"):
        to_text(program)
    with pytest.raises(UsageError, match="notes are not JSON"):
        to_json(program)
    with pytest.raises(UsageTypeError, match="attribute shape of fill_constant must be a number.*got ndarray"):
        str(Operator("fill_constant", attrs={"shape": np.zeros(2)}))


HEAD = "program random_seed=0\nblock 0 {\n var x : float32[2]\n"
BAD_TEXTS = {
    "": "line 1: expected 'block 0 {', got the end of the text",
    "block 0 {": "line 1: expected 'program', got 'block'",
    "program random_seed=x": "line 1: expected a whole number, got 'x'",
    "program random_seed=" + "9" * 5000: "line 1: a number of 5000 digits is too long",
    "program random_seed=0\nnote a {": "line 2: this is not JSON",
    "program random_seed=0\nnote a NaN": "line 2: this is not JSON: NaN",
    'program random_seed=0\nnote a {"b": 1, "b": 2}': "a name stands twice",
    "program random_seed=0\nnote a " + "[" * 100_000: "line 2: ",
    "program random_seed=0\nnote a " + "[" * 50 + "]" * 50: "note 'a' has more than 32 values within each other",
    "program random_seed=0\nblock 1 {": "line 2: expected block 0, got block 1",
    "program random_seed=0\nblock 0 {\n}\nblock 1 parent=1 {\n}": "line 4: block 1 must be inside one before it",
    HEAD: "line 4: expected '}', got the end of the text",
    HEAD + " x": "line 4: expected data, param, var, an operator or '}', got 'x'",
    HEAD + " var x : float32[2]": "line 4: variable 'x' stands twice in block 0",
    HEAD + " var y : float31[2]": "line 4: dtype of 'y' must be one of",
    HEAD + " var y : float32[-2]": "line 4: sizes of 'y' must be whole numbers >= -1, got -2",
    HEAD + " var y : float32[2": "line 4: expected ',', got the end of the line",
    HEAD + " var y : float32[2] trainable": "line 4: variable 'y' has no setting 'trainable'",
    HEAD + " var y : float32[2] persistable=1": "line 4: persistable of 'y' must be true or false, got 1",
    HEAD + " var y : float32[2] kind=map": "line 4: kind of 'y' must be one of tensor, rows, array, scopes, got 'map'",
    HEAD + ' param y : float32[2] regularizer=["l3", 1]': "line 4: regularizer of 'y' must be a pair",
    HEAD + " {Out=x} = __import__()": "line 4: there is no operator '__import__'",
    HEAD + " {Out=y} = assign(X=x)": "line 4: assign: the program has no variable 'y'",
    HEAD + " {Out=x} = assign(X=x, Y=x)": "line 4: operator assign has no input 'Y'; it has X",
    HEAD + " {Out=x} = assign()": "line 4: operator assign: input X takes one variable, got 0",
    HEAD + " {Out=x} = assign(X=[x, x])": "line 4: operator assign: input X takes one variable, got 2",
    HEAD + " {Out=x} = assign(X=x) a=1": "line 4: operator assign has no attribute 'a'; it has none",
    HEAD + " {Out=x} = assign(X=x, X=x)": "line 4: slot X stands twice",
    HEAD + " {Out=x} = assign(X=x) @later": "line 4: role of assign must be one of forward",
    HEAD + " {Out=x} = assign(X=x) in": "line 4: expected a scope, got the end of the line",
    HEAD + " {Out=x} = assign(X=x) later": "line 4: expected attribute=value",
    HEAD + " {Out=x} = fill_constant() value=exit": "line 4: expected a number, a quoted string",
    HEAD + " {Out=x} = fill_constant() value=" + "[" * 99: "line 4: more than 16 lists within each other",
    HEAD + " {Out=x} = assign(X=x)": "line 4: assign cannot write 'x', which it reads; give it another output",
    HEAD + " {Out=x} = fill_constant() shape=[3]": (
        "line 4: fill_constant: 'x' is declared as float32[2], and would be float32[3]"
    ),
    HEAD + ' {Out=x} = fill_constant() shape=[2] dtype="int64"': "float32[2], and would be int64[2]",
    HEAD + " {Out=x} = fill_constant() shape=2": "line 4: fill_constant: attribute shape must be a list, got 2",
    HEAD + " {Out=x} = fill_constant() shape=[0.5]": "line 4: fill_constant: attribute shape must hold a whole number",
    HEAD + " var y : float32[2]\n {Out=y} = softmax(X=x) axis=true": "line 5: softmax: attribute axis must be a whole",
    HEAD + " var y : float32[2] kind=rows\n {Out=y} = clip(X=x)": "is declared as float32[2] kind=rows, and would be",
    HEAD + " var y : float32[]\n var z : float32[1]\n {Y=z} = cross_entropy(X=y, Label=x)": "line 6: cross_entropy: X",
    HEAD + ' {Out="x': "line 4: a string that does not end",
    HEAD + ' {Out="\\q"} = assign(X=x)': "line 4: '\"\\\\q\"' is not a quoted string",
}


@pytest.mark.parametrize("text", BAD_TEXTS, ids=range(len(BAD_TEXTS)))
def test_text_that_is_no_program(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Program.parse_from_string(text)
    assert BAD_TEXTS[text] in str(caught.value)
    assert str(caught.value).startswith("line ")


def test_text_may_be_written_by_hand() -> None:
    variables = " var x : float32[2, 2]\r\n var y : float32[2, -1]\n"
    program = Program.parse_from_string(
        f'# mine\nprogram random_seed=1\n\nblock 0 {{\n{variables} {{Out=y}} = mul(Y=x, X="x")\n}}\n'
    )
    assert list(program.global_block().ops[0].inputs) == ["X", "Y"], "kernels take slots in the order of the definition"
    with pytest.raises(UsageTypeError, match="must be a string, got int"):
        Program.parse_from_string(7)  # type: ignore[arg-type]


def _json(change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(to_json(real()[0]))
    change(document)
    return json.dumps(document)


BAD_JSON: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda d: d.update(format="x"), "format must be 'fleet-program', got 'x'"),
    (lambda d: d.update(version=2), "version must be 1, got '2'; a newer Fleet may read it"),
    (lambda d: d.update(extra=2), "unknown field 'extra'"),
    (lambda d: d.pop("blocks"), "'blocks' is missing"),
    (lambda d: d.update(blocks=[]), "blocks must have at least one block"),
    (lambda d: d.update(random_seed=True), "random_seed must be a whole number, got 'True'"),
    (lambda d: d["blocks"][0].update(parent=0), "block 0 is inside no other"),
    (lambda d: d["blocks"][0]["vars"][0].update(shape=4), "blocks[0].vars[0]: shape must be a list, got '4'"),
    (lambda d: d["blocks"][0]["vars"][0].update(shape=[1.5]), "sizes of 'x' must be whole numbers"),
    (lambda d: d["blocks"][0]["vars"][0].update(trainable=True), "blocks[0].vars[0]: unknown field 'trainable'"),
    (lambda d: d["blocks"][0]["ops"].append([]), "expected an object, got a list of 0"),
    (lambda d: d["blocks"][0]["ops"][0].update(type="exec"), "blocks[0].ops[0]: there is no operator 'exec'"),
    (lambda d: d["blocks"][0]["ops"][0].update(inputs={"X": "x"}), "inputs.X must be a list, got 'x'"),
    (lambda d: d["blocks"][0]["ops"][0]["attrs"].update(x_num_col_dims={"float": "1"}), "attrs.x_num_col_dims must be"),
    (lambda d: d["blocks"][0]["ops"][0]["inputs"].update(X=["gone"]), "mul: the program has no variable 'gone'"),
    (lambda d: d.update(blocks=[{"parent": i - 1, "vars": [], "ops": []} for i in range(99)]), "more than 32 blocks"),
]


@pytest.mark.parametrize(("change", "message"), BAD_JSON, ids=range(len(BAD_JSON)))
def test_json_that_is_no_program(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Program.from_json(_json(change))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "NaN", "[" * 100_000, "{", '{"a": 1, "a": 2}', "1" * 5000])
def test_nonsense_is_no_json_form(text: str) -> None:
    with pytest.raises(UsageError, match="a program's JSON: "):
        Program.from_json(text)


def test_lines_of_variables() -> None:
    block = Program().global_block()
    assert str(Variable(block, "g", [2], kind=ROWS, persistable=True)) == ("var g : float32[2] kind=rows persistable")
    frozen = Parameter(block, "w", [2], "float64", trainable=False, regularizer=Penalty("l2", 1e-45), need_clip=False)
    assert str(frozen) == 'param w : float64[2] trainable=false regularizer=["l2", 1e-45] need_clip=false'


def test_gradients_of_ragged_variables_that_are_used_twice_read_back() -> None:
    with building() as built:
        x = layers.fc(fed("x", [-1, 3], lod_level=1), 2)
        pooled = layers.sequence_pool(x, "sum") + layers.sequence_pool(layers.relu(x), "max")
        optimizer.SGD(0.1).minimize(layers.mean(pooled))
    for write, read in FORMS:
        assert same(read(write(built.main)), built.main)
