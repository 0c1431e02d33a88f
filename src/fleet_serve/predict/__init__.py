"""Whole predictions: a model is exported without its rows, and asks the tables that are served for them.

`exporting` writes such a program, `predictor` runs it beside a served model. Both need torch; a server without a
program imports neither.
"""
