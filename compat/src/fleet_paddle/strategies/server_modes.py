"""A strategy for each way in which workers and servers come together, as classes and from a factory."""

from __future__ import annotations

from fleet.errors import UsageError
from fleet_paddle.strategies.server_strategy import ServerStrategy


class SyncStrategy(ServerStrategy):
    """A step ends when every worker's gradients are in."""

    def __init__(self) -> None:
        super().__init__()
        self.a_sync = False


class AsyncStrategy(ServerStrategy):
    """A gradient counts when it arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.a_sync = True
        self.get_build_strategy().async_mode = True


class HalfAsyncStrategy(AsyncStrategy):
    """As async, but a worker waits for its own send."""

    def __init__(self) -> None:
        super().__init__()
        self.a_sync_configs = {"half_async": True}


class GeoStrategy(AsyncStrategy):
    """Workers train on copies and exchange differences every `update_frequency` steps."""

    def __init__(self, update_frequency: int = 100) -> None:
        super().__init__()
        if update_frequency < 1:
            raise UsageError(f"GeoStrategy: update_frequency must be >= 1, got {update_frequency}")
        self.a_sync_configs = {"k_steps": update_frequency}


class StrategyFactory:
    """Makes each of them."""

    create_sync_strategy = SyncStrategy
    create_async_strategy = AsyncStrategy
    create_half_async_strategy = HalfAsyncStrategy
    create_geo_strategy = GeoStrategy
