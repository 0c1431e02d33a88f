"""Looks at a model, its optimizer and one step, for `fleet.planner` to think about.

`script` is the half of `fleetrun plan` in the script's process. Ask for `plan_model.plan` and `first_step.FirstStep`.
"""
