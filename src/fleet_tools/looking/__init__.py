"""Looks at a model, its optimizer and one step, for `fleet_tools.planner` to think about.

`first_step.PlannedScript` is the half of `fleetrun plan` in the script's process; `plan_model.plan` is `fleet.plan`.
"""
