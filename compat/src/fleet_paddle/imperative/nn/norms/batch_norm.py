"""Batch norm with Paddle's meaning: which share is kept, which variance, and what the state calls them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn

from fleet.collective.parts.sync_batch_norm import OwnBatchNorm, over_all_workers
from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative import creation
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base import programs
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_paddle.rows.networks.norm import channels_are_last, chosen_format, remember
from fleet_paddle.rows.window import back, to_first
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.variable import Variable

__all__ = ["BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "SyncBatchNorm"]


class _BatchNorm(TakingLayer, OwnBatchNorm):
    """Each channel with mean 0 and variance 1, then weight and bias: see `functional.batch_norm`.

    The running statistics are the buffers `_mean` and `_variance`. Without weight_attr or bias_attr, False, these stay
    1 and 0.
    """

    weight: Any
    bias: Any
    _mean: Any
    _variance: Any
    formats: ClassVar[tuple[str, ...]] = ()
    dims: ClassVar[tuple[int, ...]] = ()
    takes = (
        "num_features, momentum=0.9, epsilon=1e-05, weight_attr=None, bias_attr=None, data_format=None, "
        "use_global_stats=None, name"
    )

    def make_of(self, given: Any) -> None:
        self._format = chosen_format(self, given.data_format, self.formats)
        self.num_features, self._momentum, self._epsilon = given.num_features, given.momentum, given.epsilon
        self._use_global_stats = given.use_global_stats
        self.weight = self._made(given.weight_attr, 1.0)
        self.bias = self._made(given.bias_attr, 0.0)
        self._keep("_mean", 0.0, getattr(given, "moving_mean_name", None))
        self._keep("_variance", 1.0, getattr(given, "moving_variance_name", None))

    def _made(self, attr: Any, first: float) -> Any:
        settings = ParamAttr(trainable=False) if attr is False else attr
        return self.create_parameter([self.num_features], settings, None, first == 0, Constant(first))

    def _keep(self, place: str, first: float, name: str | None) -> None:
        made: Any
        if programs.are_meant():
            made = self.create_parameter([self.num_features], ParamAttr(name, Constant(first), trainable=False))
        else:
            made = creation.full([self.num_features], first, self._dtype)
            made.name = name
        self.register_buffer(place, made)

    def forward(self, x: Any) -> Any:
        settings: dict[str, Any] = {"momentum": self._momentum, "epsilon": self._epsilon, "data_format": self._format}
        if isinstance(x, Variable):
            settings |= {"training": self.training, "use_global_stats": self._use_global_stats}
            given: Any = (x, self._mean, self._variance, self.weight, self.bias)
            return F.batch_norm(*given, **settings)
        if x.dim() not in self.dims:
            several = " or ".join(str(one) for one in self.dims)
            raise UsageError(f"{type(self).__name__} takes {several} dimensions, got shape {list(x.shape)}")
        of_batch = self.training if self._use_global_stats is None else not self._use_global_stats
        if of_batch and self.is_synchronised and dist.is_initialized() and dist.get_world_size() > 1:
            return self._over_workers(x)
        mean, variance = self._mean, self._variance
        if of_batch and not self.is_counting:
            mean, variance = mean.clone(), variance.clone()
        return F.batch_norm(x, mean, variance, self.weight, self.bias, of_batch, **settings)

    def _over_workers(self, x: torch.Tensor) -> Tensor:
        last = channels_are_last(type(self).__name__, self._format, x.dim())
        with torch.autocast(x.device.type, enabled=False):
            values = to_first(x, last).to(self._mean.dtype)
            made, mean, variance, total = over_all_workers(values, self.weight, self.bias, self._epsilon)
        if int(total) == 1:
            return as_paddle(x.clone())
        if self.is_counting:
            remember(self._mean, self._variance, mean, variance, self._momentum)
        return as_paddle(back(made.to(x.dtype), last))

    def extra_repr(self) -> str:
        return f"num_features={self.num_features}, momentum={self._momentum}, epsilon={self._epsilon}"


class BatchNorm1D(_BatchNorm):
    """Batch norm of [batch, features] or [batch, features, length]."""

    formats, dims = ("NCL", "NC", "NLC"), (2, 3)


class BatchNorm2D(_BatchNorm):
    """Batch norm of images, [batch, channels, height, width]."""

    formats, dims = ("NCHW", "NHWC"), (4,)


class BatchNorm3D(_BatchNorm):
    """Batch norm of volumes, [batch, channels, depth, height, width]."""

    formats, dims = ("NCDHW", "NDHWC"), (5,)


class BatchNorm(_BatchNorm):
    """Batch norm of 2 to 5 dimensions, in the words of 1.8: with an activation after it.

    With `is_test` or `use_global_stats` the running statistics are used in training too, with `trainable_statistics`
    those of the batch in evaluation too.
    """

    formats, dims = ("NCHW", "NHWC", "NC", "NCL", "NLC", "NCDHW", "NDHWC"), (2, 3, 4, 5)
    takes = (
        "num_channels->num_features, act=None, is_test=False, momentum=0.9, epsilon=1e-05, "
        "param_attr->weight_attr=None, bias_attr=None, dtype='float32', data_layout->data_format='NCHW', "
        "in_place=False, moving_mean_name=None, moving_variance_name=None, do_model_average_for_mean_and_var=True, "
        "use_global_stats=False, trainable_statistics=False"
    )

    def take(self, given: dict[str, Any]) -> None:
        if creation.dtype_of(given["dtype"]) is torch.float32:
            given["dtype"] = None  # the default: that of new floats
        super().take(given)

    def make_of(self, given: Any) -> None:
        if given.in_place:
            raise NotSupportedError("BatchNorm: in_place is not built; leave it out")
        of_kept = given.is_test or given.use_global_stats
        given.use_global_stats = True if of_kept else False if given.trainable_statistics else None
        super().make_of(given)
        self._act = None if given.act is None else getattr(F, given.act, None)
        if given.act is not None and self._act is None:
            raise UsageError(f"BatchNorm: act must be the name of a function, such as relu, got {given.act!r}")

    def forward(self, input: Any) -> Any:
        made = super().forward(input)
        return made if self._act is None else self._act(made)


class SyncBatchNorm(_BatchNorm):
    """Batch norm whose statistics in training are those of all workers' batches together."""

    formats, dims, is_synchronised = BatchNorm.formats, BatchNorm.dims, True

    @classmethod
    def convert_sync_batchnorm(cls, layer: nn.Module) -> nn.Module:
        """The layer with every batch norm in it synchronised, itself if it is one; parameters and buffers stay."""
        for name, child in list(layer.named_children()):
            setattr(layer, name, cls.convert_sync_batchnorm(child))
        if not isinstance(layer, _BatchNorm) or isinstance(layer, SyncBatchNorm):
            return layer
        if getattr(layer, "_act", None) is not None:
            layer.is_synchronised = True
            return layer
        made = cls.__new__(cls)
        made.__dict__.update(layer.__dict__)  # the same parameters and buffers, which an optimizer may know already
        return made
