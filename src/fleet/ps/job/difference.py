"""Where two declarations of a job disagree, in one line that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.ps.job.dense_spec import DenseSpec
    from fleet.ps.job.named_spec import NamedSpec
    from fleet.ps.job.spec import JobSpec, TableSpec

TABLE_FIELDS = (
    *("width", "dtype", "bounds", "max_bytes", "seed", "max_rows", "unseen", "max_norm", "norm_type"),
    *("row_format", "gradient_format", "memory"),
)


_OTHERS = "in the declaration of the others"


def difference(a: JobSpec, b: JobSpec) -> str | None:
    """The first disagreement of declaration `a` ("here") with `b` ("the others"), or None when they are equal.

    For example `table 'ads': width is 16 here, 8 in the declaration of the others`.
    """
    return next(_job(a, b), None)


def table_difference(a: TableSpec, b: TableSpec, where: str) -> str:
    """The first disagreement of two declarations of a table; `where` says where the second stands: `in 'items'`.

    For example `table 'ads': width is 16 here, 8 in 'items'`.
    """
    return next(_table(a, b)).removesuffix(_OTHERS) + where


def _job(a: JobSpec, b: JobSpec) -> Iterator[str]:
    fields = ("num_workers", "num_servers", "mode", "nonfinite", "clip_norm", "is_elastic", "is_summed")
    yield from _fields("job", a, b, fields)
    yield from _names("table", [table.name for table in a.tables], [table.name for table in b.tables])
    for mine, theirs in zip(a.tables, b.tables, strict=True):
        yield from _table(mine, theirs)
    yield from _dense(a.dense, b.dense)
    yield from _names("tensor", [one.name for one in a.kept], [one.name for one in b.kept])
    for one, other in zip(a.kept, b.kept, strict=True):
        yield from _fields(f"tensor {one.name!r}", one, other, ("dtype", "shape", "server", "passing"))


def _table(a: TableSpec, b: TableSpec) -> Iterator[str]:
    owner = f"table {a.name!r}"
    yield from _fields(owner, a, b, TABLE_FIELDS)
    yield from _named(owner, "rule", a.rule, b.rule)
    yield from _named(owner, "initializer", a.initializer, b.initializer)
    yield from _named(owner, "entry", a.entry, b.entry)
    yield from _fields(f"{owner}, entry {a.entry.name}", a.entry, b.entry, ("inputs",))


def _dense(a: DenseSpec, b: DenseSpec) -> Iterator[str]:
    if len(a.groups) != len(b.groups):
        yield _line("dense parameters", "number of groups", len(a.groups), len(b.groups))
        return
    for index, (mine, theirs) in enumerate(zip(a.groups, b.groups, strict=True)):
        yield from _named(f"dense group {index}", "rule", mine, theirs)
    yield from _fields("dense parameters", a, b, ("value_format", "gradient_format", "topk"))
    yield from _names("parameter", [name for name, _ in a.shapes], [name for name, _ in b.shapes])
    for (name, mine_shape), (_, their_shape) in zip(a.shapes, b.shapes, strict=True):
        if mine_shape != their_shape:
            yield _line(f"parameter {name!r}", "shape", mine_shape, their_shape)
    if len(a.blocks) != len(b.blocks):
        yield _line("dense parameters", "number of blocks", len(a.blocks), len(b.blocks))
        return
    for index, (block, other) in enumerate(zip(a.blocks, b.blocks, strict=True)):
        yield from _fields(f"dense block {index}", block, other, ("parameter",))
        yield from _fields(f"parameter {block.parameter!r}, dense block {index}", block, other, ("group", "server"))
        yield from _fields(f"parameter {block.parameter!r}, dense block {index}", block, other, ("begin", "end"))


def _named(owner: str, role: str, a: NamedSpec, b: NamedSpec) -> Iterator[str]:
    """A rule, an initialiser or an entry: the name first, then the arguments."""
    if a.name != b.name:
        yield _line(owner, role, a.name, b.name)
        return
    mine, theirs = dict(a.args), dict(b.args)
    for name in sorted(mine | theirs):
        if mine.get(name) != theirs.get(name):
            yield _line(f"{owner}, {role} {a.name}", name, mine.get(name, "absent"), theirs.get(name, "absent"))


def _names(what: str, mine: Sequence[str], theirs: Sequence[str]) -> Iterator[str]:
    for name in mine:
        if name not in theirs:
            yield f"{what} {name!r} is declared here, but not by the others"
    for name in theirs:
        if name not in mine:
            yield f"{what} {name!r} is declared by the others, but not here"
    for index, (ours, other) in enumerate(zip(mine, theirs, strict=False)):
        if ours != other:
            line = f"{what} number {index} is {ours!r} here, {other!r} in the declaration of the others"
            yield f"{line}; declare them in the same order"


def _fields(owner: str, a: object, b: object, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine != theirs:
            yield _line(owner, name, mine, theirs)


def _line(owner: str, name: str, mine: Any, theirs: Any) -> str:
    return f"{owner}: {name} is {mine} here, {theirs} {_OTHERS}"
