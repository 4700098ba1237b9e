"""``duetime demo``: a small shop whose orders are placed, paid, cancelled and closed before your eyes.

Everything is real but the customers: the sample shop's tables on SQLite, made by the migrator, and the service that
``duetime run`` runs. The proof at the end (``judge``) shares no code with what it judges.
"""

from duetime.cli.demo.command import demo

__all__ = ["demo"]
