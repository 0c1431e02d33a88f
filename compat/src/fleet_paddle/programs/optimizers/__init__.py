"""Optimizers of programs that stand around others, average, or compute in mixed precision; Adadelta."""
