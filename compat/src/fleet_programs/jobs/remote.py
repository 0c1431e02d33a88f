"""What `fleet_programs` asks for where a program talks to servers and to other trainers."""

from __future__ import annotations

from fleet_programs.jobs import gather, saving
from fleet_programs.jobs.kernels import make_kernel
from fleet_programs.remote import Remote


class Programs:
    """The `Remote` of this process."""

    kernel = staticmethod(make_kernel)
    save = staticmethod(saving.save)
    load = staticmethod(saving.load)
    load_here = staticmethod(saving.load_here)
    refuse_to_load = staticmethod(saving.refuse_to_load)
    for_inference = staticmethod(gather.for_inference)
    with_tables = staticmethod(gather.with_tables)
    gathered = staticmethod(gather.gathered)


programs: Remote = Programs()
