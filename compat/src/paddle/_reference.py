"""Writes docs/paddle.md from the tables of the modules: `python -m paddle._reference > docs/paddle.md`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from paddle import _alias

INTRODUCTION = """\
# Names of PaddlePaddle

Scripts written for PaddlePaddle 1.5 to 2.0 run on Fleet as they are: `compat/` is a second distribution,
`fleet-paddle`, whose package `paddle` has their names, and `fleet_paddle` what they stand for. `make setup` installs
it; in an environment of your own `pip install ./compat` does, after Fleet's own `pip install .`, which does not. It
does not work beside a real `paddlepaddle`: importing it there is an error that says which one to remove.

This page is made by `make docs` from the same tables that the names come from. A name that is not here raises an error
that says what comes closest.

## Commands

| `python -m` | of `fleetrun` | logs |
|---|---|---|
| `paddle.distributed.launch --selected_gpus=0,1 train.py` | `--gpus 0,1 train.py` | `mylog/` |
| `paddle.distributed.launch_ps --worker_num 2 --server_num 2 train.py` | the same; 2 and 2 are the defaults | `logs/` |
| `paddle.distributed.fleet.launch --gpus 0,1 train.py` | the same | `log/` |

They take `--cluster_node_ips`, `--node_ip`, `--started_port`, `--start_port`, `--endpoints`, `--print_config` and every
option of [fleetrun](fleetrun.md). On a machine without GPUs set `FLEET_DEVICE=cpu`, or add `--device cpu`: then
`CUDAPlace(0)` is the CPU, and `--gpus 0,1` means two workers there.

## What differs between versions

| | `paddle.fluid` | `paddle.static` |
|---|---|---|
| a fetched number, such as a mean loss | shape [1] | shape [] |
| `fc` | `fc(input=, act=)` | `fc(x=, activation=)` or as before; giving both spellings is an error |
| `embedding` | a last size of 1 of the ids is dropped | the ids keep their shape |
| `data` | `layers.data` puts the batch before the shape | the shape as it is, `None` for the batch |

## What differs from PaddlePaddle 2.0

| | there | here |
|---|---|---|
| a number, such as a mean loss | shape [1] | shape []; `numpy()`, `loss[0]` and `concat` read it as [1] |
| `x.shape` | a list | equal to that list; one to change is `list(x.shape)` |
| `x.dtype` | `paddle.float32` | torch's, which is equal to `paddle.float32` and `VarType.FP32` |
| float32 beside float64 | the type of the left one | the same; whole numbers beside floats give floats |
| `RMSProp` | `epsilon` below the root | beside it: torch's formula, which programs and servers have too |
| `epsilon` of Adam, in programs | before the bias is corrected | after it, as torch has it |
| `Embedding(sparse=True)` | decay may leave rows out | as a dense one, but for `lazy_mode` of Adam and AdamW |
| `x[0]`, `reshape`, `squeeze`, `transpose`, `split` | copies | views: changing one in place changes `x` |
| `y.gradient()` of a result `y` | what backward found | None, unless `y.retain_grad()` came before backward |
| `torch.compile(layer)`, `strategy.compile` | - | only networks of torch's own modules, called with plain tensors |
| `torch.save(layer.state_dict())`, a pickled tensor | - | holds plain torch tensors |
| `set_state_dict` of a layer | skips what does not fit | the same, and one warning names it |
| files of `paddle.save` | pickles | safetensors; a pickle is never read |

`paddle.optimizer` has optimizers of tensors (with `parameters=`) and of programs (without). Functions such as
`paddle.mean` and `paddle.nn.functional.relu` take tensors and variables. So do `paddle.fluid.layers` and
`paddle.fluid.optimizer` (with `parameter_list=`): after `fluid.dygraph.guard()` or `fluid.enable_dygraph()` they mean
tensors where nothing else tells. Datasets of `paddle.dataset` are read from `FLEET_DATA_HOME`; where their files are
missing they are made up, and say so. See [static.md](static.md) for programs and
[parameter_server.md](parameter_server.md) for servers.

## Networks as classes build programs

A network of 2.0, a `Layer`, builds a program when it is made after `enable_static()` and called with variables:

```python
import paddle
from paddle import nn, static


class Clicks(nn.Layer):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(10**6, 8, sparse=True, weight_attr=paddle.ParamAttr("rows"))
        self.tower = nn.Sequential(nn.Flatten(), nn.Linear(24, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))

    def forward(self, ids):
        return nn.functional.sigmoid(self.tower(self.rows(ids)))


paddle.enable_static()
with static.program_guard(static.Program(), static.Program()):
    probabilities = Clicks()(static.data("ids", [None, 3], "int64"))
    paddle.optimizer.Adam(0.01).minimize(probabilities.mean())
paddle.disable_static()
```

Its parameters are those of the default programs from the moment that it is made, with the names and layouts that they
have for tensors; no memory is taken before the startup program runs, and in a job with servers none for a sparse table.
Functions look at what they are given: `paddle.concat`, `paddle.nn.functional.relu` and methods such as `x.mean()` add
operators for variables and compute for tensors; one that is not built for variables says what to use instead. `train()`
and `eval()` are looked at when the layer is called, and `clone(for_test=True)` evaluates what was built for training.
`state_dict()` has the variables by their places in the network, and `set_state_dict` writes values, also those of a
network of tensors, into the scope, after the startup program.
"""


def page() -> str:
    """The whole page."""
    _alias.load_all()
    return INTRODUCTION + "".join(_section(name) for name in sorted(_alias.TABLES))


def _section(module: str) -> str:
    names = _alias.TABLES[module]
    parts = set(names.parts.split())
    table = {name: target for name, target in names.table().items() if name not in parts}
    if not table and not names.refused:
        return ""
    text = f"\n## {module}\n\n{importlib.import_module(module).__doc__}\n"
    if table:
        text += "\n| names | in Fleet |\n|---|---|\n" + "".join(_rows(table))
    if names.refused:
        text += "\n| not built | instead |\n|---|---|\n"
        text += "".join(f"| `{name}` | {names.refused[name]} |\n" for name in sorted(names.refused, key=_order))
    return text


def _rows(table: dict[str, str]) -> Iterator[str]:
    """A row for the names of each home that are the same there, then one for each that is another."""
    homes: dict[str, list[str]] = {}
    others = []
    for name in sorted(table, key=_order):
        home, _, own = table[name].partition(":")
        if own == name:
            homes.setdefault(home, []).append(f"`{name}`")
        else:
            others.append(f"| `{name}` | `{table[name].replace(':', '.')}` |\n")
    yield from (f"| {', '.join(names)} | `{home}` |\n" for home, names in sorted(homes.items()))
    yield from others


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name


if __name__ == "__main__":
    print(page(), end="")
