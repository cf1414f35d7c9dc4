"""The HTTP side of the bus."""

from emulator.bus.admin.server import AdminServer

__all__ = ["AdminServer"]
