"""What can go wrong with the world, as exceptions; what an attempt found is a value (see ``order``).

DuetimeError
├── ConfigError            the configuration cannot be used; lists every problem
├── InvalidInput           the caller's own words are wrong (also a ValueError); nothing was written
├── StoreError             the store could not do what was asked
│   ├── StoreUnavailable   not reachable, or the connection was lost: try again later
│   ├── StoreConflict      deadlock, lock time-out or serialization failure: try again now
│   ├── StoreRefused       a constraint or a trigger of the shop forbids this row
│   └── StoreMisfit        a table or a column is missing: nothing of this kind can be done
│       └── StoreDenied    a right is missing, or the account may not enter at all
├── BatchBlocked           one order of a batch cannot be written as things are; names the row
└── TriggerError, PublisherError
"""

from collections.abc import Mapping, Sequence


class DuetimeError(Exception):
    """Root of every error that duetime raises on purpose."""


class ConfigError(DuetimeError):
    """The configuration cannot be used.

    ``problems`` holds one sentence for each thing that is wrong: the key's path, what was found, what is allowed.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        """Join all problems into one message, a line each."""
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class InvalidInput(DuetimeError, ValueError):
    """An argument cannot be what the caller meant; the message says what was found and what is allowed."""


class StoreError(DuetimeError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The store does not answer, or the connection was lost on the way.

    Whether the last commit took place is unknown: whoever retries must recognise its own work.
    """


class StoreConflict(StoreError):
    """The store ended the transaction in favour of another one; the same attempt may succeed at once."""


class StoreRefused(StoreError):
    """A constraint, or a trigger of the shop's own, forbids the write; other rows may be fine."""


class StoreMisfit(StoreError):
    """The database is not as it was described: a table, a column or a right is missing. It concerns every order."""


class StoreDenied(StoreMisfit):
    """The database refuses this account: it may not enter, or a right is missing; the message names what for."""


class BatchBlocked(DuetimeError):
    """Something in a batch cannot be written as things are; nothing of the batch was written.

    ``blocked`` says for each order that needs the row in question what is wrong with it; it is empty where the store
    did not say which row it was, or where only the sum of several orders is too much.
    """

    def __init__(self, why: str, blocked: Mapping[str, str] | None = None) -> None:
        """Keep the reason and, where known, the orders that it concerns."""
        self.why = why
        self.blocked = dict(blocked or {})
        super().__init__(why)


class TriggerError(DuetimeError):
    """A trigger could not be reached or refused what was asked."""


class PublisherError(DuetimeError):
    """A publisher could not be reached or refused what was asked."""
