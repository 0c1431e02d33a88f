"""Hot rows that are trained where the model is, as in GPU memory, instead of in their table.

`slot_sets` finds which keys have a slot, `hot_rows` trains them by the formulas of `job`. Ask for
`hot_tables.HotTables`.
"""
