"""Layers: functions that add operators to the default program, or compute if they are given tensors."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs": "Variable",
        "fleet_paddle.fluid.layers": "*",
        "fleet_paddle.fluid.newer": "*",
        "fleet_paddle.distribution": "Categorical MultivariateNormalDiag Normal Uniform",
        "fleet_paddle.fluid.decoding": "BeamSearchDecoder Decoder dynamic_decode",
        "fleet_paddle.programs.py_reader": "create_py_reader_by_data double_buffer py_reader read_file",
    },
    renamed={"core": "paddle.fluid.core"},
    parts="collective control_flow distributions io learning_rate_scheduler loss metric_op nn ops sequence_lod tensor "
    "utils",
    refused={
        "lod_append": "there is one level of rows; use lod_reset",
        "detection": "layers for pictures with boxes are not here; torchvision.ops has them for tensors",
        "open_files": "use fluid.DatasetFactory",
    },
)
