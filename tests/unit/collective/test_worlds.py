"""fleet.collective.world.worlds: values as bytes and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleet.collective.world.worlds import pack, unpack
from fleet.errors import UsageError


def test_a_tensor_that_torch_conjugates_later() -> None:
    later = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert later.is_conj()
    assert unpack(pack(later)).tolist() == [1 - 2j, 3 + 4j]


def test_a_tensor_that_torch_negates_later() -> None:
    later = torch._neg_view(torch.tensor([1.0, -2.0]))
    assert later.is_neg()
    assert unpack(pack(later)).tolist() == [-1.0, 2.0]


def test_an_array_with_fields_is_refused() -> None:
    with pytest.raises(UsageError, match="an array with fields .'x', 'y'. cannot be sent; send each field") as caught:
        pack(np.zeros(2, dtype=[("x", "i4"), ("y", "f8")]))
    assert "\n" not in str(caught.value)
