"""What people run beside a job, or behind it; it imports `fleet`, and `fleet` never imports it.

`fleet` finds it by the entry points in pyproject.toml: commands of fleetrun, and what a job asks of `fleet._lazy.tool`.
"""
