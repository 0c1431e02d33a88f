"""The names of paddle: every one is there, what is not says what comes closest, and the page of the site lists them."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any

import pytest

import paddle
from paddle import _alias, _reference

_alias.load_all()


@pytest.mark.parametrize("module", sorted(_alias.TABLES))
def test_every_name_is_there(module: str) -> None:
    table = _alias.TABLES[module]
    own = importlib.import_module(module)
    assert (own.__doc__ or "").strip()
    for name, target in table.table().items():
        assert name in dir(own)
        if name not in table.live.split():  # those are there after fleet.init()
            assert getattr(own, name) is _alias.resolve(target)
    for name in table.refused:
        assert name not in table.table()
        with pytest.raises(AttributeError, match=f"{module}.{name} is not built: "):
            getattr(own, name)


@pytest.mark.parametrize(
    ("module", "name", "closest"),
    [
        ("paddle.fluid.layers", "reduce_summ", "paddle.fluid.layers.reduce_sum"),
        ("paddle.fluid", "SGD", "paddle.fluid.optimizer.SGD"),
        ("paddle.distributed.fleet", "is_workers", "paddle.distributed.fleet.is_worker"),
        ("paddle", "Executor", "paddle.fluid.Executor or paddle.static.Executor"),
    ],
)
def test_a_name_that_is_not_there_says_what_comes_closest(module: str, name: str, closest: str) -> None:
    own = importlib.import_module(module)
    with pytest.raises(AttributeError) as found:
        getattr(own, name)
    assert str(found.value).startswith(f"{module} has no {name!r}; the closest there is: {closest}")
    assert not hasattr(own, name)
    with pytest.raises(ImportError, match=f"{module} has no '{name}'; the closest there is"):
        exec(f"from {module} import {name}")


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError, match="pslib is not built: use paddle.fluid.incubate.fleet.parameter_serv"):
        importlib.import_module("paddle.fluid.incubate.fleet.parameter_server.pslib")
    with pytest.raises(ModuleNotFoundError, match=r"paddle.fluid has no 'layrs'; the closest .*paddle.fluid.layers"):
        importlib.import_module("paddle.fluid.layrs")
    with pytest.raises(AttributeError, match="'__wrapped__'"):
        _ = paddle.__wrapped__


def test_stars_bring_every_name() -> None:
    found: dict[str, Any] = {}
    exec("from paddle.fluid.layers import *", found)
    assert {"fc", "embedding", "data"} <= found.keys()


@pytest.mark.parametrize("real", ["paddlepaddle", "paddlepaddle-gpu"])
def test_it_refuses_to_work_beside_the_real_one(real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == real:
            return "2.0.2"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(ImportError, match=f"{real} 2.0.2 are both installed.*pip uninstall {real}, or"):
        importlib.reload(paddle)


def test_the_page_lists_every_name() -> None:
    page = _reference.page()
    for module, names in _alias.TABLES.items():
        own = page.partition(f"\n## {module}\n")[2].partition("\n## ")[0]
        wanted = (names.table().keys() | names.refused) - set(names.parts.split())
        assert [name for name in sorted(wanted) if f"`{name}`" not in own] == []
