"""Slurm's short hand."""

from __future__ import annotations

import pytest

from fleet.roles.slurm import expand_hosts, expand_tasks


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("c", ["c"]),
        ("a,b", ["a", "b"]),
        ("node[01-03,7]", ["node01", "node02", "node03", "node7"]),
        ("a[01-03,7],b-[1,3]-x,c", ["a01", "a02", "a03", "a7", "b-1-x", "b-3-x", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[5-5].cluster.local", ["n5.cluster.local"]),
        ("  a,b\n", ["a", "b"]),
    ],
)
def test_hosts(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "a,", ",a", "a,,b", "a b", "a[", "a]", "a[]", "a[1", "a1]", "a[1-]", "a[-1]", "a[x]"),
        *("a[1,]", "a[,1]", "a[3-1]", "a[1-2-3]", "a[[1]]", "a[1 2]", "a[0-99999999999]", "a[0-999][0-999]"),
    ],
)
def test_malformed_hosts(text: str) -> None:
    with pytest.raises(ValueError):
        expand_hosts(text)


@pytest.mark.parametrize(
    ("text", "tasks"), [("4", [4]), ("4(x2),3", [4, 4, 3]), ("1,2,3(x1)", [1, 2, 3]), ("2(x3)", [2, 2, 2])]
)
def test_tasks(text: str, tasks: list[int]) -> None:
    assert expand_tasks(text) == tasks


@pytest.mark.parametrize("text", ["", "x", "4(x)", "4(2)", "4,", "4(x2", "-1", "1(x99999999)"])
def test_malformed_tasks(text: str) -> None:
    with pytest.raises(ValueError, match="holds"):
        expand_tasks(text)
