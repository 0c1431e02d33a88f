"""What a program is fed, and readers that feed it."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_paddle.fluid.layers": "data",
        "fleet_paddle.programs.py_reader": "create_py_reader_by_data double_buffer py_reader read_file",
    },
)
