"""What a predictor is told: files, device, threads, and how PaddlePaddle would have made it faster."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import Any

from fleet.errors import NotSupportedError, UsageError
from fleet_programs.executor.place import CPUPlace, CUDAPlace

File = str | os.PathLike[str]


class PrecisionType(enum.Enum):
    """How exactly a predictor computes; only as the model was saved is built."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


class Config:
    """`Config(folder)`, or `Config(model_file, params_file)`; or empty, and `set_model` later.

    `switch_ir_optim`, `enable_memory_optim`, `enable_mkldnn` and their like choose how PaddlePaddle rewrites a program
    to run faster, and what it logs; results are the same without, and here nothing is rewritten. What changes results,
    such as TensorRT in half precision, is refused.
    """

    def __init__(self, model: File | None = None, params: File | None = None) -> None:
        self._folder, self._model, self._params = "", "", ""
        self._gpu: int | None = None
        self._num_threads: int | None = None
        self._rewrites = True
        if model is not None:
            self.set_model(model, params)

    def set_model(self, model: File, params: File | None = None) -> None:
        """A folder of `save_inference_model`, or the file of a model and that of its parameters."""
        first, second = os.fspath(model), "" if params is None else os.fspath(params)
        self._folder, self._model, self._params = (first, "", "") if params is None else ("", first, second)

    def set_prog_file(self, path: File) -> None:
        """The file of the model."""
        self._model = os.fspath(path)

    def set_params_file(self, path: File) -> None:
        """The file of its parameters."""
        self._params = os.fspath(path)

    def model_dir(self) -> str:
        """The folder; empty where there are two files."""
        return self._folder

    def prog_file(self) -> str:
        """The file of the model; empty where there is a folder."""
        return self._model

    def params_file(self) -> str:
        """The file of its parameters; empty where there is a folder."""
        return self._params

    def enable_use_gpu(self, memory_pool_init_size_mb: int = 100, device_id: int = 0) -> None:  # noqa: ARG002
        """Compute on a GPU; its memory is taken as it is needed, not beforehand."""
        self._gpu = int(device_id)

    def disable_gpu(self) -> None:
        """Compute on the CPU."""
        self._gpu = None

    def use_gpu(self) -> bool:
        """Whether it computes on a GPU."""
        return self._gpu is not None

    def gpu_device_id(self) -> int:
        """The index of that GPU; 0 without one."""
        return self._gpu or 0

    @property
    def place(self) -> CPUPlace | CUDAPlace:
        """Where it computes."""
        return CPUPlace() if self._gpu is None else CUDAPlace(self._gpu)

    def set_cpu_math_library_num_threads(self, cpu_math_library_num_threads: int) -> None:
        """With how many threads the CPU computes: torch.set_num_threads, when a predictor is made, for all of them."""
        if cpu_math_library_num_threads < 1:
            raise UsageError(f"the number of threads must be >= 1, got {cpu_math_library_num_threads}")
        self._num_threads = int(cpu_math_library_num_threads)

    def cpu_math_library_num_threads(self) -> int | None:
        """The number that was set; None for as many as torch has."""
        return self._num_threads

    def switch_ir_optim(self, x: bool = True) -> None:
        """Kept for `ir_optim()`; see the class."""
        self._rewrites = bool(x)

    def ir_optim(self) -> bool:
        """What `switch_ir_optim` said."""
        return self._rewrites

    def _only_speed(self, *args: Any, **named: Any) -> None:
        """It says how fast, how much memory or which log, not what comes out; see the class."""

    enable_memory_optim = enable_mkldnn = disable_glog_info = delete_pass = enable_profile = _only_speed
    set_mkldnn_cache_capacity = set_optim_cache_dir = switch_ir_debug = set_mkldnn_op = _only_speed
    switch_use_feed_fetch_ops = switch_specify_input_names = disable_mkldnn = enable_cudnn = _only_speed

    def enable_tensorrt_engine(self, *args: Any, **named: Any) -> None:  # noqa: ARG002
        """Not built."""
        raise NotSupportedError("Config.enable_tensorrt_engine: there is no TensorRT here; leave it out")

    def tensorrt_engine_enabled(self) -> bool:
        """There is none."""
        return False

    def files(self) -> tuple[Path, str | None, str | None]:
        """The folder, and the names of model and parameters in it where they were given."""
        if self._folder:
            return Path(self._folder), None, None
        if not self._model or not self._params:
            raise UsageError(
                "Config: give a folder, or the files of a model and of its parameters: Config(model, params)"
            )
        model, params = Path(self._model), Path(self._params)
        if model.parent != params.parent:
            raise UsageError(f"Config: model and parameters must be in one folder, got {model} and {params}")
        return model.parent, model.name, params.name
