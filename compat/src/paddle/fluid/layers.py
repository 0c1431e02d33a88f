"""Layers: functions that add operators to the default program."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.static.composed": "*", "fleet.static.layers": "*"},
    refused={
        "DynamicRNN": "use sequence_pool, sequence_conv or sequence_first_step over ragged input",
        "IfElse": "build two programs and run the one that is wanted",
        "Print": "fetch the variable: exe.run(fetch_list=[variable])",
        "StaticRNN": "use sequence_pool or sequence_conv over ragged input",
        "Switch": "the learning-rate schedules are layers of their own: piecewise_decay, linear_lr_warmup",
        "While": "run the program in a loop",
        "case": "build two programs and run the one that is wanted",
        "cond": "build two programs and run the one that is wanted",
        "create_py_reader_by_data": "use fluid.io.DataLoader.from_generator",
        "dynamic_gru": "use sequence_pool, sequence_conv or sequence_first_step over ragged input",
        "dynamic_lstm": "use sequence_pool, sequence_conv or sequence_first_step over ragged input",
        "hsigmoid": "use softmax_with_cross_entropy",
        "nce": "sample ids in the reader and use sigmoid_cross_entropy_with_logits, as word2vec does",
        "open_files": "use fluid.DatasetFactory",
        "py_func": "register an operator in Python: fleet.static.registry.register",
        "py_reader": "use fluid.io.PyReader or fluid.io.DataLoader.from_generator",
        "sampled_softmax_with_cross_entropy": "use softmax_with_cross_entropy",
        "while_loop": "run the program in a loop",
    },
)
