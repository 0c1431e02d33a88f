"""Layers: functions that add operators to the default program, or compute if they are given tensors."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "*",
        "fleet.static.py_reader": "create_py_reader_by_data double_buffer py_reader read_file",
    },
    parts="control_flow io learning_rate_scheduler loss metric_op nn ops sequence_lod tensor",
    refused={
        "DynamicRNN": "use dynamic_lstm, dynamic_gru or the sequence layers over ragged input",
        "IfElse": "build two programs and run the one that is wanted",
        "StaticRNN": "use dynamic_lstm or dynamic_gru over ragged input, or lstm_unit and gru_unit in a loop of Python",
        "Switch": "the learning-rate schedules are layers of their own: piecewise_decay, linear_lr_warmup",
        "While": "run the program in a loop",
        "array_length": "keep a list of variables in Python",
        "array_read": "keep a list of variables in Python",
        "array_write": "keep a list of variables in Python",
        "case": "build two programs and run the one that is wanted",
        "cond": "build two programs and run the one that is wanted",
        "create_array": "keep a list of variables in Python, and put it together with stack or concat",
        "dynamic_lstmp": "use dynamic_lstm",
        "lod_append": "there is one level of rows; use lod_reset",
        "lstm": "use dynamic_lstm over ragged input",
        "detection": "layers for pictures with boxes are not here; torchvision.ops has them for tensors",
        "open_files": "use fluid.DatasetFactory",
        "py_func": "register an operator in Python: fleet.static.registry.register",
        "switch_case": "build two programs and run the one that is wanted",
        "while_loop": "run the program in a loop",
    },
)
