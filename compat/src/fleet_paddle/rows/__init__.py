"""Functions of 2.0 as rows: how each is called, what it is on tensors, and what it is on variables of a program.

Most come from the definitions of operators (`operators`), which name 2.0's spelling. A function that is no single
operator has its row here, in the file of its family. `listing.functions()` is all of them; the modules called `table`
hold what is compiled from them, and beside each a stub for editors, which `make docs` writes.
"""
