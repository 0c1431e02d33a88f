"""From the ids of a batch to its rows: distinct keys, their servers, and the way back to the batch.

`lookup_maker` makes lookups ahead, in a thread beside the model (`side_thread`). Ask for `lookup.Lookup` and
`keys.route`.
"""
