"""Operators that only scripts of PaddlePaddle need: whole as those of Fleet, and there when a program asks for them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path
from subprocess import CompletedProcess, run

import fleet_programs as static
from fleet_paddle.fluid import layers as of_fluid
from fleet_paddle.programs import layers, ops
from fleet_programs import layers as of_fleet
from program_support.definitions import has_kernel, names_slots_that_exist
from program_support.programs import building

HELPERS = {"order", "stacked", "steps"}
"""Files that other modules take from, and `fluid.contrib`, whose layers are not in `fluid.layers`."""


def test_the_package_names_every_file_of_operators() -> None:
    files = {file.stem for file in Path(ops.__file__).parent.glob("*/*.py")} - {"__init__"}
    assert files <= set(vars(ops))


def test_every_operator_is_whole() -> None:
    assert {"crf_decoding", "nce", "nce_grad", "lstm"} <= {known.type for known in ops.OWN}
    for known in ops.OWN:
        assert known.infer is not None, known.type
        has_kernel(known)
        names_slots_that_exist(known)


def test_every_layer_is_exported_and_documented_and_none_is_in_fleet_too() -> None:
    found = set()
    for module in pkgutil.walk_packages(layers.__path__, f"{layers.__name__}."):
        own = module.name
        members = inspect.getmembers(importlib.import_module(own), callable)
        if own.rpartition(".")[2] not in HELPERS:
            found |= {
                name for name, value in members if getattr(value, "__module__", "") == own and not name.startswith("_")
            }
    assert list(layers.__all__) == sorted(found)
    assert all(getattr(layers, name).__doc__ for name in layers.__all__)
    assert not set(layers.__all__) & set(of_fleet.__all__)
    assert {*layers.__all__, *of_fleet.__all__} <= set(of_fluid.__all__)


def reading(text: str, first: str) -> CompletedProcess[str]:
    """What becomes of a script that reads a program's text after `first`."""
    script = (
        f"{first}; import sys; assert 'torch' not in sys.modules; from fleet_programs import Program\n"
        "print(Program.parse_from_string(sys.stdin.read()))"
    )
    return run([sys.executable, "-c", script], input=text, capture_output=True, text=True, check=False)


def test_a_text_with_them_is_read_where_paddle_was_imported() -> None:
    with building() as built:
        x, label = static.data("x", [None, 2]), static.data("label", [None, 1], "int64")
        static.append_backward(of_fleet.mean(layers.hsigmoid(x, label, 4)))
    text = str(built.main)
    assert "hierarchical_sigmoid_grad(" in text
    read = reading(text, "import paddle")
    assert (read.stdout.strip(), read.returncode) == (text.strip(), 0), read.stderr
    refused = reading(text, "import fleet")
    assert "there is no operator 'hierarchical_sigmoid'; " in refused.stderr
    assert "if another package defines it, import that package first" in refused.stderr
