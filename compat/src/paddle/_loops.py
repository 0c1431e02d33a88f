"""Control flow inside a program, which is not built, and what to do instead."""

LOOPS = {
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
    "switch_case": "build two programs and run the one that is wanted",
    "while_loop": "run the program in a loop",
}
