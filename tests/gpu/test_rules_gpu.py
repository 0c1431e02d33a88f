"""Rules on a GPU give the bits of the table's formula on the CPU, which are those of the core."""

from __future__ import annotations

import pytest
import torch

from fleet.ps.job.rule_table import RULES
from support.rule_homes import assert_same, by_cached_rows, by_formula, by_group, training
from support.worker.dense_rules import VARIANTS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]


@pytest.mark.parametrize(("rule", "args"), VARIANTS, ids=str)
def test_rows_beside_the_model(rule: str, args: dict[str, float]) -> None:
    given = training(20, 37)
    assert_same(rule, by_cached_rows("cuda")(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)


@pytest.mark.parametrize(("rule", "args"), VARIANTS, ids=str)
def test_dense_parameters(rule: str, args: dict[str, float]) -> None:
    given = training(1, 301)
    assert_same(rule, by_group("cuda")(rule, args, given), by_formula(rule, args, given), RULES[rule].bound)
