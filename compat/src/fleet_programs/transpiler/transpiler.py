"""`DistributeTranspiler`: cuts a trained program into those of trainers and servers."""

from __future__ import annotations

from typing import Any

from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.net import Endpoint
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.arguments import Arguments, read
from fleet_programs.transpiler.planning.config import DistributeTranspilerConfig
from fleet_programs.transpiler.planning.plan import Plan, make_plan
from fleet_programs.transpiler.planning.tables import not_started
from fleet_programs.transpiler.planning.wait_port import wait_for_ports
from fleet_programs.transpiler.programs import for_collective, for_server, for_trainer, refuse_transpiled


class DistributeTranspiler:
    """Cuts programs for a job.

    `transpile` changes the main and the startup program in place, into those of the trainer it was told; programs of
    servers are made when they are asked for. Every process of the job calls it with the same program and arguments, but
    for `trainer_id`.

        t = DistributeTranspiler()
        t.transpile(trainer_id, pservers="10.0.0.1:6174,10.0.0.2:6174", trainers=2)
        if is_server:
            main, startup = t.get_pserver_programs(endpoint)
        else:
            main, startup = t.get_trainer_program(), default_startup_program()
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        self.config = DistributeTranspilerConfig() if config is None else config
        if not isinstance(self.config, DistributeTranspilerConfig):
            raise UsageTypeError(f"config must be a DistributeTranspilerConfig, got {type(config).__name__}")
        self._arguments: Arguments | None = None
        self._plan: Plan | None = None
        self._has_waited = False

    def transpile(self, *args: Any, **named: Any) -> None:
        """Cut the default programs, or those given; `transpiler.planning.arguments` lists the orders of arguments.

        trainer_id: of this trainer, from 0; program, startup_program: what to cut; pservers: a comma list of HOST:PORT;
        trainers: how many there are, or, without servers, a comma list of their endpoints; sync_mode; current_endpoint:
        of this trainer, without servers; slice_var_up, split_method: as in the config.
        """
        arguments = read(args, named, self.config)
        refuse_transpiled(arguments.main)
        origin = arguments.main.clone(), arguments.startup.clone()
        plan = None
        if arguments.kind == "pserver":
            plan = make_plan(*origin, arguments)
            started = {name for op in origin[1].global_block().ops for name in op.output_names}
            for name in plan.dense:
                if name not in started:
                    raise not_started(name)
            report = plan.report()
            main, startup = for_trainer(*origin, plan)
        else:
            mode = self.config.collective_mode or "grad_allreduce"
            report = f"{mode}, trainers {', '.join(arguments.endpoints)}"
            main, startup = for_collective(*origin, arguments.endpoints, arguments.trainer_id, mode)
        if self.config.print_log:
            print(report, flush=True)
        arguments.main.become(main)
        arguments.startup.become(startup)
        self._main, self._startup = origin
        self._arguments, self._plan, self._has_waited = arguments, plan, False

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """The trainer's main program: the one that was given. Waits for the servers first, unless told not to."""
        arguments = self._ready()
        if wait_port and self.config.wait_port and self._plan is not None and not self._has_waited:
            wait_for_ports(arguments.endpoints)
            self._has_waited = True
        return arguments.main

    def get_pserver_program(self, endpoint: str) -> Program:
        """The main program of a server."""
        return self.get_pserver_programs(endpoint)[0]

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """Main and startup program of a server."""
        return self._server(endpoint, self._original_startup())

    def get_startup_program(
        self, endpoint: str, pserver_program: Program | None = None, startup_program: Program | None = None
    ) -> Program:
        """The startup program of a server: the given one, or that of `transpile`, cut to what the server holds."""
        if pserver_program is not None:
            self._check_served(pserver_program, endpoint)
        arguments = self._ready()
        if startup_program is None or startup_program is arguments.startup:  # that one is the trainer's by now
            startup_program = self._original_startup()
        return self._server(endpoint, startup_program)[1]

    def _server(self, endpoint: str, startup: Program) -> tuple[Program, Program]:
        arguments = self._ready()
        if self._plan is None:
            raise UsageError(f'config.mode = "{arguments.kind}" has no servers; there is only get_trainer_program()')
        return for_server(self._main, startup, self._plan, arguments.endpoints.index(self._known(endpoint)))

    def _known(self, endpoint: str) -> str:
        servers = self._ready().endpoints
        found = str(Endpoint.parse(endpoint))
        if found not in servers:
            raise UsageError(
                f"{endpoint!r} is none of the servers {', '.join(servers)}; give one of transpile's pservers"
            )
        return found

    def _check_served(self, program: Program, endpoint: str) -> None:
        ops = [op for op in program.global_block().ops if op.type == "listen_and_serv"]
        if not ops or ops[0].attr("endpoint") != self._known(endpoint):
            raise UsageError(
                f"pserver_program is not the program of server {endpoint!r}; give get_pserver_program({endpoint!r})"
            )

    def _original_startup(self) -> Program:
        self._ready()
        return self._startup

    def _ready(self) -> Arguments:
        if self._arguments is None:
            raise NotReadyError("call transpile() first")
        return self._arguments
