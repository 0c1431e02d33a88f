"""Version 1.8's functions and optimizers, for programs and for tensors: what they are given decides which is meant.

A layer of programs that is given tensors is built once for their shapes, and the kernels of its operators are then
called on them (`traced`); an optimizer does the same with its updates (`optimizer`).
"""
