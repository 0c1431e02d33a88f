"""Tree-based retrieval: what is drawn beside an item's ancestors, and the children of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.programs.device import device_guard
from fleet_paddle.programs.networks.tree import tdm_child, tdm_sampler
from fleet_programs.layers.io import fed
from program_support.programs import building

# Two layers: nodes 1 and 2, then 3 to 6. The path of item 3 ends above the second.
TRAVEL = np.array([[1, 3], [1, 4], [2, 5], [2, 0]])
LAYER = np.array([[1], [2], [3], [4], [5], [6]])
# item, layer, parent, two children
TREE = np.array([[0] * 5, [0, 0, 0, 3, 4], [0, 0, 0, 5, 0], [7, 1, 1, 0, 0], [8, 1, 1, 0, 0], [0, 1, 2, 0, 0]])


def test_an_ancestor_and_others_of_its_layer() -> None:
    with building() as built:
        x = fed("x", [-1, 1], "int64")
        parts = tdm_sampler(x, [1, 2], [2, 4], 4, "travel", "layer", tree_dtype="int64", dtype="int64")
        assert [one.shape for one in parts[0]] == [(-1, 2, 1), (-1, 3, 1)]
    built.start(travel=TRAVEL, layer=LAYER)
    drawn = set()
    for _ in range(20):
        wanted = [one for two in parts for one in two]
        nodes, more, labels, _, mask, masks = built.run({"x": np.array([[0], [3]])}, *wanted)
        assert nodes[:, :, 0].tolist() == [[1, 2], [2, 1]]
        assert (labels[:, :, 0].tolist(), mask.min()) == ([[1, 0], [1, 0]], 1)
        first, second = more[:, :, 0].tolist()
        assert first[0] == 3
        assert second == [0, 0, 0]
        assert masks[:, :, 0].tolist() == [[1, 1, 1], [0, 0, 0]]
        assert set(first[1:]) < {4, 5, 6}
        assert len(set(first)) == 3
        drawn |= set(first[1:])
    assert drawn == {4, 5, 6}


def test_one_variable_of_all_without_ancestors() -> None:
    with building() as built:
        nodes, labels, _ = tdm_sampler(
            fed("x", [-1, 1], "int64"), [1, 3], [2, 4], 4, "travel", "layer", output_positive=False, output_list=False
        )
    built.start(travel=TRAVEL.astype(np.int32), layer=LAYER.astype(np.int32))
    found, label = built.run({"x": np.array([[2]])}, nodes, labels)
    assert (found.dtype, sorted(found[0, 1:, 0].tolist()), label.max()) == (np.int32, [3, 4, 6], 0)
    with pytest.raises(UsageError, match="tdm_sampler: an item must be from 0 to 3, got 9 to 9 in 'x'"):
        built.run({"x": np.array([[9]])}, nodes)
    with building(), pytest.raises(UsageError, match="a number below the layer's size for each layer"):
        tdm_sampler(fed("x", [-1, 1], "int64"), [2, 1], [2, 4], 4)


def test_children_and_which_of_them_are_items() -> None:
    with building() as built:
        child, mask = tdm_child(fed("x", [-1, 2], "int64"), 6, 2, "tree", "int64")
        assert child.shape == (-1, 2, 2)
    built.start(tree=TREE.astype(np.int32))
    children, masks = built.run({"x": np.array([[1, 2], [0, 3]])}, child, mask)
    assert children.tolist() == [[[3, 4], [5, 0]], [[0, 0], [0, 0]]]
    assert masks.tolist() == [[[1, 1], [0, 0]], [[0, 0], [0, 0]]]


def test_a_device_is_named_and_a_stage_is_refused() -> None:
    for device in ("cpu", "gpu", "gpu:0", None):
        with device_guard(device):
            pass
    with pytest.raises(NotSupportedError, match="stages on several devices"), device_guard("gpu:1"):
        pass
    with pytest.raises(UsageError, match="device must be 'cpu', 'gpu' or None, got 'tpu'"), device_guard("tpu"):
        pass
