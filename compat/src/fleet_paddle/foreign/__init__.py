"""Files that PaddlePaddle itself wrote, read without running any code that is in them.

    pickled.py     `.pdparams` and `.pdopt`: pickles of dicts of arrays, of which nothing but data is built
    operators.py   a look through such a pickle before it is read
    tensors.py     one variable in a file, or many in one (`.pdiparams`)
    messages.py    the messages of `__model__` and `.pdmodel`
    programs.py    those as programs of Fleet; spelled.py, what is called otherwise here
    states.py      the state of an optimizer
    loading.py     the calls of scripts: Fleet's own files, or those of PaddlePaddle, whichever are there

Whatever a file says of its lengths, types and names is compared with what there is: a damaged file is a CheckpointError
of one line.
"""
