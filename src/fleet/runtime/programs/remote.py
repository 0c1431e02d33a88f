"""What `fleet.static` asks for where a program talks to servers and to other trainers."""

from __future__ import annotations

from fleet.runtime.programs import home, saving
from fleet.runtime.programs.kernels import make_kernel
from fleet.static.remote import Remote


class Programs:
    """The `Remote` of this process."""

    kernel = staticmethod(make_kernel)
    save = staticmethod(saving.save)
    load = staticmethod(saving.load)
    load_here = staticmethod(saving.load_here)
    refuse_to_load = staticmethod(saving.refuse_to_load)
    for_inference = staticmethod(home.for_inference)
    with_tables = staticmethod(home.with_tables)
    at_home = staticmethod(home.at_home)


programs: Remote = Programs()
