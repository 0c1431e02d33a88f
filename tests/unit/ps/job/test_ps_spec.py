"""fleet.ps: declarations, their JSON form and their differences, and the constructors users meet."""

from __future__ import annotations

import doctest
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet import _native, checkpoint
from fleet.errors import UsageError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.difference import difference
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec, RuleSpec
from fleet.ps.job.spec import KEPT_DTYPES, JobSpec, TableSpec

ADS = TableSpec("ads", 8, rules.Adagrad(lr=0.05), initializers.Uniform(-0.01, 0.01), entries.AlwaysEntry())
USERS = TableSpec(
    "users",
    4,
    rules.Adam(),
    initializers.Normal(0, 0.1),
    entries.ShowClickEntry("shown", "clicked"),
    dtype="bfloat16",
    bounds=(-10, 10),
    max_bytes=1 << 30,
    seed=7,
)
DENSE = DenseSpec(
    (rules.SGD(0.1), rules.Adam()),
    (("fc.weight", (4, 3)), ("fc.bias", (4,)), ("empty", (0, 3))),
    (
        DenseBlock("fc.weight", 0, 6, 0, 0),
        DenseBlock("fc.weight", 6, 12, 1, 0),
        DenseBlock("fc.bias", 0, 4, 0, 1),
    ),
)
JOB = JobSpec(2, 2, "sync", "error", (ADS, USERS), DENSE)


@pytest.mark.parametrize("module", [rules, initializers, entries])
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_no_torch() -> None:
    program = (
        "import fleet.ps.job.entries, fleet.ps.job.initializers, fleet.ps.job.rules, sys; print(' '.join(sys.modules))"
    )
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy"} & set(modules)


def test_a_checkpoint_can_hold_every_kept_type() -> None:
    assert set(KEPT_DTYPES) == set(checkpoint.DTYPES)


@pytest.mark.parametrize("spec", [JOB, DENSE, DENSE.blocks[0], ADS, USERS, ADS.rule, USERS.entry, ADS.initializer])
def test_json_there_and_back(spec: Any) -> None:
    text = spec.to_json()
    assert type(spec).from_json(text) == spec
    assert type(spec).from_json(text.encode()) == spec
    assert type(spec).from_json(text).to_json() == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(min_size=1).filter(str.isprintable))
def test_json_keeps_every_bit(value: float, name: str) -> None:
    table = replace(ADS, name=name, initializer=InitializerSpec("constant", (("value", value),)))
    back = TableSpec.from_json(table.to_json())
    assert (back.name, back.initializer.args[0][1].hex()) == (name, value.hex())


def test_arguments_are_an_object_in_json() -> None:
    assert json.loads(rules.SGD(0.5).to_json()) == {
        "name": "sgd",
        "args": {"lr": 0.5, "maximize": 0, "weight_decay": 0},
    }
    assert json.loads(DENSE.to_json())["shapes"] == {"fc.weight": [4, 3], "fc.bias": [4], "empty": [0, 3]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "JobSpec is not JSON: Expecting value"),
        (b"\xff\xfe\xfd", "JobSpec is not JSON"),
        ("[" * 100_000, "JobSpec is not JSON: nested too deeply"),
        ("[]", "JobSpec must be an object, got \\[\\]"),
        ("{}", "JobSpec lacks the field 'num_workers'; run the same version"),
        (JOB.to_json()[:-1] + ',"more":1}', "JobSpec has a field 'more' that this version does not know"),
        (
            JOB.to_json().replace('"num_workers":2', '"num_workers":true'),
            "JobSpec.num_workers must be an int, got True",
        ),
        (JOB.to_json().replace('"width":8', '"width":"8"'), r"JobSpec.tables\[0\].width must be an int, got '8'"),
        (JOB.to_json().replace('"lr":0.05', '"lr":NaN'), "NaN is no number"),
        (JOB.to_json().replace('"lr":0.05', '"lr":1e999'), "rule adagrad: lr must be a finite number, got inf"),
        (JOB.to_json().replace("[-10.0,10.0]", "[1,2,3]"), r"bounds must be a list of 2, got \[1, 2, 3\]"),
        (JOB.to_json().replace("[4,3]", "{}"), "JobSpec.dense.shapes.fc.weight must be a list, got {}"),
        (JOB.to_json().replace('"mode":"sync"', '"mode":"off"'), 'job: mode must be "sync" or "async"'),
        (JOB.to_json().replace('"end":12', '"end":11'), "'fc.weight' has 12 elements, but its blocks end at 11"),
    ],
)
def test_json_of_another_kind_is_one_line(text: str | bytes, line: str) -> None:
    with pytest.raises(UsageError, match=line) as caught:
        JobSpec.from_json(text)
    assert "\n" not in str(caught.value)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5), st.data()
)
def test_json_with_any_value_in_any_place(value: object, data: st.DataObject) -> None:
    tree = json.loads(JOB.to_json())
    place = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = value
    text = json.dumps(tree)
    with suppress(UsageError):
        job = JobSpec.from_json(text)
        assert JobSpec.from_json(job.to_json()) == job


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"name": ""}, "table: name must be printable text of at least one character, got ''"),
        ({"name": "a\nb"}, "table: name must be printable text"),
        ({"name": 3}, "table: name must be text, got 3"),
        ({"width": 0}, "table 'ads': width must be >= 1, got 0"),
        ({"width": 2.0}, "table 'ads': width must be an int, got 2.0"),
        ({"width": True}, "table 'ads': width must be an int, got True"),
        ({"dtype": "float64"}, 'table \'ads\': dtype must be "float32" or "float16" or "bfloat16", got \'float64\''),
        ({"bounds": (1.0, 1.0)}, r"table 'ads': bounds must be \(low, high\) with low < high, got \[1.0, 1.0\]"),
        ({"bounds": (1.0,)}, r"bounds must be \(low, high\)"),
        ({"bounds": (float("nan"), 1.0)}, r"table 'ads': bounds\[0\] must be a finite number, got nan"),
        ({"max_bytes": -1}, "table 'ads': max_bytes must be >= 0, got -1"),
        ({"seed": -1}, "table 'ads': seed must be >= 0, got -1"),
        (
            {"rule": "sgd"},
            "table 'ads': rule must be a RuleSpec, got 'sgd'; make one with fleet.rules, for example fleet",
        ),
        ({"initializer": rules.SGD()}, "table 'ads': initializer must be a InitializerSpec"),
    ],
)
def test_a_table_that_cannot_be(change: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        replace(ADS, **change)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: replace(JOB, num_workers=0), "job: num_workers must be >= 1 and <= 65536, got 0"),
        (lambda: replace(JOB, nonfinite="maybe"), 'job: nonfinite must be "error" or "skip", got \'maybe\''),
        (lambda: replace(JOB, tables=(ADS, ADS)), "table 'ads' is declared twice"),
        (lambda: replace(JOB, num_servers=1), "server must be below the number of servers, 1, got 1"),
        (lambda: replace(DENSE, groups=DENSE.groups[:1]), "group must be below the number of groups, 1, got 1"),
        (lambda: replace(DENSE, blocks=DENSE.blocks[1:]), "'fc.weight': a block begins at 6, expected 0"),
        (lambda: replace(DENSE, blocks=DENSE.blocks[:2]), "'fc.bias' has 4 elements, but its blocks end at 0"),
        (lambda: replace(DENSE, shapes=DENSE.shapes[:1]), "the parameter 'fc.bias', which is not among those declared"),
        (lambda: replace(DENSE, shapes=DENSE.shapes + DENSE.shapes[:1]), "parameter 'fc.weight' is declared twice"),
        (lambda: DenseBlock("w", 4, 4, 0, 0), "a block of parameter 'w': begin must be below end, got 4 and 4"),
        (lambda: RuleSpec("sgd", (("lr", 1), ("lr", 2))), "rule sgd: an argument is given twice among"),
    ],
)
def test_a_job_that_cannot_be(make: Callable[[], object], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        make()


def test_arguments_are_sorted_and_floats() -> None:
    rule = RuleSpec("sgd", (("weight_decay", 0), ("lr", 1)))
    assert rule.args == (("lr", 1.0), ("weight_decay", 0.0))
    assert all(type(value) is float for _, value in rule.args)
    assert {rule, InitializerSpec("sgd", rule.args)} > {rule}
    assert hash(rule) == hash(RuleSpec("sgd", rule.args))


def test_the_size_of_a_group_on_a_server() -> None:
    assert [[DENSE.size(server, group) for group in range(2)] for server in range(3)] == [[6, 4], [6, 0], [0, 0]]


def other(**dense: Any) -> JobSpec:
    return replace(JOB, dense=replace(DENSE, **dense))


@pytest.mark.parametrize(
    ("here", "line"),
    [
        (replace(JOB, num_workers=3), "job: num_workers is 3 here, 2 in the declaration of the others"),
        (replace(JOB, mode="geo"), "job: mode is geo here, sync in the declaration of the others"),
        (replace(JOB, tables=(USERS,)), "table 'ads' is declared by the others, but not here"),
        (
            replace(JOB, tables=(*JOB.tables, replace(ADS, name="more"))),
            "table 'more' is declared here, but not by the others",
        ),
        (
            replace(JOB, tables=(USERS, ADS)),
            "table number 0 is 'users' here, 'ads' in the declaration of the others; declare them in the same order",
        ),
        (
            replace(JOB, tables=(replace(ADS, width=16), USERS)),
            "table 'ads': width is 16 here, 8 in the declaration of the others",
        ),
        (
            replace(JOB, tables=(replace(ADS, rule=rules.Adagrad(0.1)), USERS)),
            "table 'ads', rule adagrad: lr is 0.1 here, 0.05 in the declaration of the others",
        ),
        (
            replace(JOB, tables=(replace(ADS, rule=rules.SGD()), USERS)),
            "table 'ads': rule is sgd here, adagrad in the declaration of the others",
        ),
        (
            replace(JOB, tables=(ADS, replace(USERS, entry=entries.ShowClickEntry("a", "b")))),
            "table 'users', entry show_click: inputs is ('a', 'b') here, ('shown', 'clicked') in the declaration of "
            "the others",
        ),
        (
            other(groups=(*DENSE.groups, rules.Sum())),
            "dense parameters: number of groups is 3 here, 2 in the declaration of the others",
        ),
        (
            other(groups=(rules.SGD(0.2), rules.Adam())),
            "dense group 0, rule sgd: lr is 0.2 here, 0.1 in the declaration of the others",
        ),
        (
            other(shapes=(("fc.weight", (3, 4)), *DENSE.shapes[1:])),
            "parameter 'fc.weight': shape is (3, 4) here, (4, 3) in the declaration of the others",
        ),
        (
            other(blocks=(DenseBlock("fc.weight", 0, 12, 0, 0), DENSE.blocks[2])),
            "dense parameters: number of blocks is 2 here, 3 in the declaration of the others",
        ),
        (
            other(blocks=(*DENSE.blocks[:2], DenseBlock("fc.bias", 0, 4, 1, 1))),
            "parameter 'fc.bias', dense block 2: server is 1 here, 0 in the declaration of the others",
        ),
    ],
)
def test_the_first_difference(here: JobSpec, line: str) -> None:
    assert difference(here, JOB) == line


def test_no_difference() -> None:
    assert difference(JOB, JobSpec.from_json(JOB.to_json())) is None


def test_rules_say_what_they_return() -> None:
    for rule in (rules.SGD, rules.Momentum, rules.Sum):
        assert get_type_hints(rule)["return"] is RuleSpec
        assert inspect.signature(rule).return_annotation == "RuleSpec"  # as help() shows it


def test_rules_have_all_their_arguments() -> None:
    wanted = {
        "sgd": {"lr", "weight_decay", "maximize"},
        "momentum": {"lr", "momentum", "dampening", "nesterov", "weight_decay", "maximize"},
        "adagrad": {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "maximize"},
        "adagrad_row": {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "maximize"},
        "adam": {"lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay"},
        "adamax": {"lr", "beta1", "beta2", "eps", "weight_decay", "maximize"},
        "adamw": {"lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad", "maximize"},
        "decayed_adagrad": {"lr", "decay", "eps", "weight_decay", "maximize"},
        "lamb": {"lr", "beta1", "beta2", "eps", "weight_decay", "maximize"},
        "lars": {"lr", "momentum", "coeff", "weight_decay", "eps", "nesterov", "maximize"},
        "rmsprop": {"lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize"},
        "ftrl": {"lr", "l1", "l2", "lr_power", "initial_accumulator_value", "weight_decay", "maximize"},
        "sum": set(),
        "average": {"lr"},
    }
    made = [
        rules.SGD(),
        rules.SGD(momentum=0.9),
        rules.Adagrad(),
        rules.Adagrad(per_row=True),
        rules.Adam(),
        rules.AdamW(),
        rules.Adamax(),
        rules.DecayedAdagrad(),
        rules.Lamb(),
        rules.Lars(0.1),
        rules.RMSprop(),
        rules.Ftrl(),
        rules.Sum(),
        rules.Average(),
    ]
    assert {rule.name: {name for name, _ in rule.args} for rule in made} == wanted
    assert rules.SGD(0.1, 0.9) == rules.Momentum(0.1)
    for rule in made:
        _native.Rule(rule.name, dict(rule.args))  # which refuses an argument that it does not know


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: rules.SGD(lr=-1), "rule sgd: lr must be >= 0, got -1"),
        (lambda: rules.SGD(lr="0.1"), "rule sgd: lr must be a number, got '0.1'"),  # type: ignore[arg-type]
        (lambda: rules.SGD(nesterov=True), "rule sgd: nesterov needs a momentum"),
        (lambda: rules.SGD(dampening=0.5), "rule sgd: dampening needs a momentum"),
        (lambda: rules.Momentum(momentum=0), "rule momentum: momentum must be > 0, got 0"),
        (lambda: rules.SGD(0.1, -0.9), "rule momentum: momentum must be > 0, got -0.9"),
        (lambda: rules.SGD(0.1, 0.9, 0.5, nesterov=True), "rule momentum: nesterov needs dampening 0, got 0.5"),
        (lambda: rules.Adagrad(eps=-1), "rule adagrad: eps must be >= 0, got -1"),
        (lambda: rules.Adam(betas=(0.9, 1.0)), "rule adam: beta2 must be >= 0 and < 1, got 1.0"),
        (lambda: rules.Adam(betas=(0.9,)), "rule adam: betas must be two numbers, got 1"),
        (lambda: rules.AdamW(amsgrad=1), "rule adamw: amsgrad must be True or False, got 1"),  # type: ignore[arg-type]
        (lambda: rules.RMSprop(alpha=float("inf")), "rule rmsprop: alpha must be a finite number, got inf"),
        (lambda: rules.RMSprop(alpha=1), "rule rmsprop: alpha must be >= 0 and < 1, got 1"),
        (lambda: rules.Adamax(betas=(1, 0.9)), "rule adamax: beta1 must be >= 0 and < 1, got 1.0"),
        (lambda: rules.DecayedAdagrad(decay=1), "rule decayed_adagrad: decay must be >= 0 and < 1, got 1"),
        (lambda: rules.Lamb(betas=(0.9,)), "rule lamb: betas must be two numbers, got 1"),
        (lambda: rules.Lars(0.1, coeff=-1), "rule lars: coeff must be >= 0, got -1"),
        (lambda: rules.Lars(0.1, nesterov=1), "rule lars: nesterov must be True or False, got 1"),  # type: ignore[arg-type]
        (lambda: rules.Ftrl(lr_power=0.5), "rule ftrl: lr_power must be >= -1 and <= 0, got 0.5"),
        (lambda: initializers.Uniform(1, 1), "initializer uniform: low must be below high, got 1.0 and 1.0"),
        (lambda: initializers.Normal(std=0), "initializer normal: std must be > 0, got 0"),
        (lambda: initializers.TruncatedNormal(std=-1), "initializer truncated_normal: std must be > 0, got -1"),
        (lambda: initializers.Constant(float("nan")), "initializer constant: value must be a finite number, got nan"),
        (lambda: entries.CountFilterEntry(-1), "CountFilterEntry: count must be >= 0, got -1"),
        (lambda: entries.CountFilterEntry(2.0), "CountFilterEntry: count must be an int, got 2.0"),  # type: ignore[arg-type]
        (lambda: entries.ProbabilityEntry(0), "ProbabilityEntry: probability must be > 0 and < 1, got 0"),
        (lambda: entries.ProbabilityEntry(1.0), "ProbabilityEntry: probability must be > 0 and < 1, got 1.0"),
        (lambda: entries.ShowClickEntry("x", "x"), "show_name and click_name must name two inputs, got 'x', 'x'"),
        (lambda: entries.ShowClickEntry(threshold=-1), "ShowClickEntry: threshold must be >= 0, got -1"),
    ],
)
def test_values_that_cannot_work(make: Callable[[], object], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        make()


def test_entries() -> None:
    assert entries.AlwaysEntry() == EntrySpec("always", ())
    assert entries.CountFilterEntry(0).args == (("count", 0.0),)
    assert entries.ProbabilityEntry(0.5).args == (("probability", 0.5),)
    shown = entries.ShowClickEntry()
    assert dict(shown.args) == {"threshold": 10.0, "nonclk_coeff": 0.1, "click_coeff": 1.0}
    assert shown.inputs == ("show", "click")
