"""The examples of a documentation: found, run, judged. PaddlePaddle's own, where a variable names a checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from public.documented import Example, Expected, blocks_of, examples_of, read_expected
from public.forking import Ran, run_all
from public.judging import VARIABLE, judge, run_documentation
from public.listing import ListError

SOURCE = '''
def added(x):
    """Adds.

    Examples:
        .. code-block:: python
            :name: one

            import paddle
            print(paddle.to_tensor([1]) + x)

        Another:

        .. code-block:: python

            >>> print("prompted")
            prompted
            >>> print("skipped")  # doctest: +SKIP
    """


class Layer:
    def forward(self):
        r"""
        .. code-block:: python

            raise SystemExit(3)
        .. code-block:: bash

            rm -rf /
        """
'''


def test_examples_are_found_by_their_places(tmp_path: Path) -> None:
    (tmp_path / "paddle" / "nn").mkdir(parents=True)
    (tmp_path / "paddle" / "nn" / "__init__.py").write_text(SOURCE)
    (tmp_path / "fc_cn.rst").write_text("fc\n\n.. code-block:: python\n\n    print(1)\n\nthe end\n")
    (tmp_path / "broken.py").write_text("code-block:: python (")
    found = {one.name: one.code for one in examples_of(tmp_path)}
    assert found == {
        "fc_cn": "print(1)\n",
        "paddle.nn.added": "import paddle\nprint(paddle.to_tensor([1]) + x)\n",
        "paddle.nn.added:2": 'print("prompted")\n',
        "paddle.nn.Layer.forward": "raise SystemExit(3)\n",
    }
    with pytest.raises(ListError, match="has no `.. code-block:: python`"):
        examples_of(tmp_path / "paddle" / "none")


def test_a_block_ends_where_the_indentation_does() -> None:
    text = "  .. code-block:: python\n\n    if x:\n        y\n\n    z\n  and so on\n.. code-block:: python\nnothing\n"
    assert blocks_of(text) == ["if x:\n    y\n\nz\n"]


def test_namespaces() -> None:
    names = ("paddle.nn.layer.Linear:2", "paddle.fluid.layers.nn.fc", "paddle.fluid.Executor", "fc_cn")
    found = [Example(name, "").namespace for name in names]
    assert found == ["paddle.nn", "paddle.fluid.layers", "paddle.fluid", "fc_cn"]


def test_each_example_has_a_process_of_its_own_and_none_outlives_it() -> None:
    codes = {
        "fine": "import paddle, sys\nprint(paddle.__version__)\nopen('mine', 'w').close()\nsys.modules['mine'] = sys",
        "alone": "import os, sys\nassert 'mine' not in sys.modules\nassert not os.path.exists('mine')",
        "raises": "raise ValueError('so')",
        "leaves": "raise SystemExit(3)",
    }
    ran = {one.name: one for one in run_all(list(codes.items()), dict(os.environ), jobs=1, with_all=False)}
    assert {name: one.code for name, one in ran.items()} == {"fine": 0, "alone": 0, "raises": 1, "leaves": 3}
    assert ran["raises"].reason == "ValueError: so"
    hangs = "import subprocess, threading\nsubprocess.Popen(['sleep', '1000'])\nthreading.Event().wait()"
    (one,) = run_all([("hangs", hangs)], dict(os.environ), jobs=1, timeout_s=0.5, with_all=False)
    assert one.code is None
    assert one.reason.startswith("did not end")


def test_what_was_not_expected_is_a_problem() -> None:
    examples = [Example(f"paddle.nn.{name}", "") for name in "abcde"]
    ran = [Ran(one.name, int(one.name[-1] in "bce"), "Error: why") for one in examples]
    expected = {
        "paddle.nn.b": Expected("upstream", "a name that is not defined"),
        "paddle.nn.c": Expected("here", "not built"),
        "paddle.nn.d": Expected("here", "not built"),
    }
    (found,) = judge(examples, ran, expected)
    assert (found.namespace, found.ran, found.upstream, found.here, found.count) == ("paddle.nn", 1, 1, 1, 5)
    assert found.problems == ("paddle.nn.e: Error: why", "paddle.nn.d: runs; take it off the list")


def test_the_list(tmp_path: Path) -> None:
    assert all(one.whose in ("upstream", "here") and one.why for one in read_expected().values())
    path = tmp_path / "list.json"
    path.write_text('{"upstream": {"why": ["a", "a"]}, "here": {}}')
    with pytest.raises(ListError, match="'a' is there twice"):
        read_expected(path)
    path.write_text('{"here": {}}')
    with pytest.raises(ListError, match="must have the keys"):
        read_expected(path)


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} does not name a folder")
@pytest.mark.timeout(3600)
def test_the_documentation_of_paddlepaddle() -> None:
    assert run_documentation(Path(os.environ[VARIABLE]))
