"""What the user typed: the parser, each value checked alone, and options that stand in the wrong place.

Ask `parser.parse` for `options.Options`, the frozen arguments that every other room is given. Whether options fit
each other is asked in `planning.mistakes`.
"""
