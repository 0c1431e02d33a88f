"""Layers made from the definitions of operators; `make docs` writes this stub."""
# ruff: noqa: E501  (one line per layer, with scripts' names)
# fmt: off

from typing import Any

from fleet_programs.program.variable import Variable

__all__ = ['affine_grid', 'continuous_value_model', 'diag', 'gather_tree', 'grid_sampler', 'hash', 'npair_loss', 'pad2d', 'pad_constant_like', 'pixel_shuffle', 'resize_bilinear', 'resize_linear', 'resize_nearest', 'resize_trilinear', 'scatter_nd_add', 'sequence_enumerate', 'sequence_erase', 'sequence_mask', 'sequence_reshape', 'sequence_reverse', 'sequence_slice', 'sequence_softmax', 'sequence_unpad', 'shuffle_channel', 'space_to_depth', 'teacher_student_sigmoid_loss', 'temporal_shift', 'unfold']

def affine_grid(theta: Variable, out_shape: Any, name: str | None = None) -> Variable:
    """Where each pixel of the output, [batch, channels, height, width], comes from, under affine maps [batch, 2, 3]."""

def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Embeddings [rows, 2 + width] that begin with counts: log(shows + 1) and log of the ratio of clicks to shows.

    Without `use_cvm` the counts are left out. `cvm` is [rows, 2], the shows and clicks of this batch, which the first
    two columns get as their gradient; of a ragged `input` it has one row for each row.
    """

def diag(diagonal: Variable) -> Variable:
    """A matrix with the diagonal `x`, and `padding_value` elsewhere; of a matrix, its diagonal."""

def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """Whole ways of a beam search, [time, batch, beam], from each step's ids and the beams that they came from."""

def grid_sampler(x: Variable, grid: Variable, name: str | None = None) -> Variable:
    """The image at the places that the grid, [batch, height, width, 2], names, from -1 to 1."""

def hash(input: Variable, hash_size: Any, num_hash: int = 1, name: str | None = None) -> Variable:
    """For each row of ids its xxHash with seeds 0, 1, ..., modulo `hash_size`: [rows, num_hash, 1]."""

def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """The cross entropy of telling, for each anchor, which rows of `positive` have its label."""

def pad2d(input: Variable, paddings: Any = (0, 0, 0, 0), mode: str = 'constant', pad_value: float = 0.0, data_format: str = 'NCHW', name: str | None = None) -> Variable:
    """Images with so many more pixels above, below, left and right: `pad_value`, or the image again.

    `mode` is constant, reflect (as in a mirror on the outermost pixel) or edge (the outermost pixel).
    """

def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """`y` with `pad_value` after it in each dimension, as large as `x`."""

def pixel_shuffle(x: Variable, upscale_factor: Any) -> Variable:
    """Channels become pixels: [n, c * r * r, h, w] to [n, c, h * r, w * r]."""

def resize_bilinear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, align_mode: int = 1, data_format: str = 'NCHW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called bilinear.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def resize_linear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, align_mode: int = 1, data_format: str = 'NCW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called linear.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def resize_nearest(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, data_format: str = 'NCHW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called nearest.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def resize_trilinear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, align_mode: int = 1, data_format: str = 'NCDHW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called trilinear.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """`ref` with `updates` added at places; the last dimension of `index` counts along its first dimensions."""

def sequence_enumerate(input: Variable, win_size: Any, pad_value: int = 0, name: str | None = None) -> Variable:
    """For each id of a row itself and those after it, `win_size` in all; `pad_value` past the end of the row."""

def sequence_erase(input: Variable, tokens: Any, name: str | None = None) -> Variable:
    """Ids without those that `tokens` has; rows become shorter."""

def sequence_mask(x: Variable, maxlen: Any = None, dtype: Any = 'int64', name: str | None = None) -> Variable:
    """For each length a row of ones, as many as it says, and then zeros up to `maxlen` or the greatest length."""

def sequence_reshape(input: Variable, new_dim: Any) -> Variable:
    """Rows of another width: [values, width] becomes [values * width / new_dim, new_dim], row by row."""

def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """Each row from its end to its beginning."""

def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """Of row i the `length[i]` values from `offset[i]` on."""

def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Shares that sum to 1 within each row."""

def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """Padded rows cut to their lengths: ragged again."""

def shuffle_channel(x: Variable, group: Any, name: str | None = None) -> Variable:
    """The channels of `group` groups in turn."""

def space_to_depth(x: Variable, blocksize: Any, name: str | None = None) -> Variable:
    """Pixels become channels: [n, c, h * b, w * b] to [n, b * b * c, h, w]."""

def teacher_student_sigmoid_loss(input: Variable, label: Variable, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0) -> Variable:
    """The cross entropy of a click, and that of a teacher's probability where there is one.

    A `label` of -2 is no click, -1 a click, both without a teacher; with one it is the teacher's probability, plus 1
    for a click. Logits outside the bounds have no gradient.
    """

def temporal_shift(x: Variable, seg_num: Any, shift_ratio: float = 0.25, name: str | None = None) -> Variable:
    """Frames of `seg_num` each: a share of the channels comes from the frame before, as many from the one after."""

def unfold(x: Variable, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None) -> Variable:
    """Every window of an image as a column; `paddings` is a number, two, or those of top, left, bottom and right."""
