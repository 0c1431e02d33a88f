"""From the ids of a batch to its rows: distinct keys, their servers, the way back to the places of the batch.

Lookups may be made ahead by a thread beside the model. Ask for `lookup.Lookup` and `keys.route`.
"""
