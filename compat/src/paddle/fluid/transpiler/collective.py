"""All-reduces put into a program."""

from paddle._alias import alias

alias(__name__, {"fleet_programs.transpiler": "GradAllReduce LocalSGD"})
