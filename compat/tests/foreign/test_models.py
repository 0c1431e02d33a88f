"""Programs that PaddlePaddle 2.6.2 saved for inference: their results are the same here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fleet_programs as static
from fleet_paddle.foreign.spelled import respelled
from fleet_paddle.programs.inference_files import load_inference_model

MODELS = Path(__file__).parent / "data" / "models"


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.pdmodel")))
def test_results_are_the_same(name: str) -> None:
    held = dict(np.load(MODELS / f"{name}.npz"))
    expected = held.pop("__out__")
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        program, feeds, targets = load_inference_model(MODELS / name, exe)
        assert sorted(feeds) == sorted(held)
        found = exe.run(program, feed=held, fetch_list=targets)[0]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_attributes_that_are_said_otherwise() -> None:
    assert respelled("matmul_v2", {"trans_x": True}) == ("matmul", {"transpose_X": True, "transpose_Y": False})
    assert respelled("slice", {"infer_flags": [1, 1], "axes": [0]}) == ("slice", {"axes": [0]})
    assert respelled("slice", {"infer_flags": [-1]}) == ("slice", {"infer_flags": [-1]})  # which is refused then
    assert respelled("arg_max", {"dtype": 3, "keepdims": True}) == ("arg_max", {"keepdims": True})
    assert respelled("fill_constant", {"str_value": "0.1", "value": 0.0}) == ("fill_constant", {"value": 0.1})
    grown = respelled("nearest_interp_v2", {"out_h": 4, "out_w": 6, "out_d": -1, "scale": [], "data_layout": "NCHW"})
    assert grown == ("interp_v2", {"size": [4, 6], "mode": "nearest", "data_format": "NCHW"})
