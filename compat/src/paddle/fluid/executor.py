"""The Executor and its scopes."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_programs": "Executor FetchHandler global_scope scope_guard"},
    renamed={"_fetch_var": "fleet_paddle.programs.variables.finding:value_named"},
)
