"""What `fleet.static` asks for where a program talks to servers and to other trainers."""

from __future__ import annotations

from fleet.runtime.programs import gather, saving
from fleet.runtime.programs.kernels import make_kernel
from fleet.static.remote import Remote


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
