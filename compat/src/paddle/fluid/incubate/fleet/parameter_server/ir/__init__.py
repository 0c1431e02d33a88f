"""How a program is cut for workers and servers."""

from paddle._alias import alias

alias(__name__, parts="ps_dispatcher pserver_pass public trainer_pass")
