"""Jobs that another engine runs: a room for each that Fleet has a part of its own in. `ray` is the first."""
