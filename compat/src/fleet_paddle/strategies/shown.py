"""The table of a strategy: what is switched on with its settings, then how gradients travel, then how programs run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.json_form import shown
from fleet_paddle.strategies.form import FORM
from fleet_paddle.strategies.program_strategy import ProgramStrategy
from fleet_paddle.strategies.support import not_built

Row = tuple[str, str]

_TRAFFIC = (
    "fuse_all_reduce_ops",
    "fuse_grad_size_in_MB",
    "last_comm_group_size_MB",
    "nccl_comm_num",
    "sync_nccl_allreduce",
    "use_hierarchical_allreduce",
    "hierarchical_allreduce_inter_nranks",
    "find_unused_parameters",
)
_SETTINGS = {"hybrid_configs", "gradient_scale_configs", "trainer_desc_configs", "fs_client_param"}
"""Groups without a switch: shown once they have been set."""


def table(strategy: ProgramStrategy) -> str:
    """The strategy as a box of text."""
    parts = [
        ("switched on", list(_switched_on(strategy))),
        ("how gradients travel", [(name, shown(getattr(strategy, name))) for name in _TRAFFIC]),
        ("build_strategy", list(_group("build_strategy", strategy.build_strategy))),
        ("execution_strategy", list(_group("execution_strategy", strategy.execution_strategy))),
    ]
    rows = [row for _, part in parts for row in part]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    line = f"+{'-' * (first + second + 5)}+"
    lines = [line, _wide("DistributedStrategy", first + second)]
    for title, part in parts:
        lines += [line, _wide(title, first + second), line]
        lines += [f"| {name:<{first}} | {value:<{second}} |" for name, value in part]
    return "\n".join([*lines, line])


def _wide(title: str, width: int) -> str:
    return f"| {title:^{width + 3}} |"


def _switched_on(strategy: ProgramStrategy) -> Iterator[Row]:
    """Switches that are on and their groups; then groups without a switch, if somebody has set them."""
    found = False
    for name, kind in FORM.items():
        if kind != "bool" or name in _TRAFFIC or not getattr(strategy, name):
            continue
        found = True
        yield name, "True"
        if f"{name}_configs" in FORM:
            yield from _indented(_group(f"{name}_configs", getattr(strategy, f"{name}_configs")))
    set_groups = {path.split(".")[1] for path, _, _ in not_built(strategy) if "." in path}
    for name in sorted(_SETTINGS & set_groups):
        found = True
        yield name, ""
        yield from _indented(_group(name, getattr(strategy, name)))
    if not found:
        yield "nothing", ""


def _indented(rows: Iterator[Row]) -> Iterator[Row]:
    return ((f"  {name}", value) for name, value in rows)


def _group(name: str, group: Mapping[str, Any]) -> Iterator[Row]:
    fields = FORM[name]
    assert isinstance(fields, dict)
    for field in fields:
        value = group[field]
        if value is not None:
            yield field, shown(value)
