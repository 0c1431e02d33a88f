"""Jobs on a Ray cluster, in the manner of Ray Train: `fleet.ray.Trainer`.

`trainer` has the Trainer, a DataParallelTrainer of Ray with servers beside it; `servers` the actors that they are;
`workers` what a worker is told; `reports` how what it reports reaches Ray, and who is started again; `datasets` each
worker's part of a Dataset. Nothing is imported before it is asked for, and nothing works without Ray.
"""

from typing import TYPE_CHECKING

from fleet._lazy import lazily
from fleet.errors import UsageError

if TYPE_CHECKING:
    from fleet.engines.ray.datasets import batches as batches
    from fleet.engines.ray.trainer import Trainer as Trainer
    from fleet.engines.ray.workers import FleetConfig as FleetConfig

_HOMES = {"datasets": "batches", "trainer": "Trainer", "workers": "FleetConfig"}

if not TYPE_CHECKING:  # a checker that saw __all__ would take what is imported above for private
    _resolve, __dir__, __all__ = lazily(__name__, _HOMES)

    def __getattr__(name: str) -> object:
        try:
            return _resolve(name)
        except ImportError as error:
            if (error.name or "").startswith("fleet"):
                raise
            raise UsageError(f"fleet.ray.{name} needs Ray ({error}): pip install 'torch-fleet[ray]'") from error
