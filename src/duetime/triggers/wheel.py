"""The trigger ``wheel``: this process's own memory.

It says what it was armed with, to the millisecond, and forgets everything when the process ends: then the sweep is all
that is left, also for orders that were placed by another process.
"""

from duetime.trigger import TriggerLimits
from duetime.triggers.owed import OwedTrigger
from duetime.wheel import TICK


class WheelTrigger(OwedTrigger):
    """Fulfils ``duetime.trigger.Trigger`` in memory."""

    limits = TriggerLimits(
        longest_delay=None,
        precision=TICK,
        survives_restart=False,
        can_disarm=True,
        redelivers_after=None,
        redelivers_to_next=True,
    )
