"""Click logs that are made up: Criteo's columns, any size, and an AUC that is known to be the best there is.

clicks = fleet.data.synthetic.Clicks(2_200_000)
for batch in clicks.batches(1000, last=2_000_000):      # fleet.data.Batch, as files would give it
    ...
clicks.write("data/train", last=2_000_000)              # the same samples in files for fleet.data.files
clicks.ceiling(first=2_000_000)                         # the AUC of the true probabilities on the rest

    python -m fleet_tools.synthetic DIR --samples 1000000
"""

from fleet_tools.synthetic.clicks import Clicks as Clicks

__all__ = ["Clicks"]
