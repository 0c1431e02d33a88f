"""Looks at a model, its optimizer and one step, for `fleet.planner` to think about."""
