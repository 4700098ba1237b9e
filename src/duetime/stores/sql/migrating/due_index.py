"""The index that the due query reads: which one is wanted, and whether one that is there serves as well.

Where a database has partial indexes it holds pending orders only, so that closed ones cost nothing:
``(expire_at, id) WHERE status IN (…)``, with the shop's own ``only`` where there is one. The condition is written with
the literals that the due query uses: with a bound value no planner could see that the index fits. MySQL and MariaDB
have none: ``(status, expire_at, id)``, and every pending value is read as a range of its own.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Dialect, literal

from duetime.shop import OrdersTable, StateValue

PREFIX: Final = "duetime_due_"
ANOTHER_CONDITION: Final = "was made for another condition"

_WHERE: Final = " WHERE "

_NAME_BYTES: Final = 63
_DIGEST_LENGTH: Final = 8
_NAME: Final = r'(?:"(?:[^"]|"")*"|[^\W\d][\w$]*)'
_TYPE_WORDS: Final = r"(?:\ varying|\ precision|\ with(?:out)?\ time\ zone)?"
_TOKEN: Final = re.compile(
    rf"""(?P<literal>'(?:[^']|'')*')
    | (?P<cast>::\s*{_NAME}(?:\.{_NAME})?{_TYPE_WORDS}(?:\([\d,\ ]+\))?(?:\[\])*)
    | (?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    | (?P<word>-?\d[\d.]*|[^\W\d][\w$]*)
    | (?P<sign>[<>!=]+|[^\s()\[\],])
    """,
    re.VERBOSE,
)
_SAME_SIGN: Final = {"!=": "<>", "==": "="}


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """An index of the order table as the database describes it.

    ``columns``: plain columns in ascending order; the list ends before an expression, a prefix or a descending one.
    ``complete``: the list is the whole key. ``where``: its condition, as the database words it.
    ``usable``: the planner may choose it. ``note``: what we wrote beside it when we made it. ``finished``: its building
    came to an end.
    """

    name: str
    columns: tuple[str, ...]
    complete: bool = True
    where: str | None = None
    usable: bool = True
    note: str | None = None
    finished: bool = True

    @property
    def made_for(self) -> str:
        """The condition it was made for: as we wrote it then, or as the database words it."""
        noted = (self.note or "").partition(_WHERE)[2]
        return noted or self.where or "none"


@dataclass(frozen=True, slots=True)
class Ordering:
    """How a database puts rows of the same deadline in the order of their primary keys without being told by the key.

    ``ends_with_id``: every index of the table ends with its primary key, named or not.
    ``by_groups``: rows that come ordered by the deadline are sorted group by group, not all at once.
    """

    ends_with_id: bool = False
    by_groups: bool = False


@dataclass(frozen=True, slots=True)
class DueIndex:
    """The index that is wanted. Names are plain; ``condition`` is SQL, None where there are no partial indexes."""

    name: str
    status: str
    expire_at: str
    id: str
    pending: tuple[StateValue, ...]
    only: str | None = None
    condition: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Its key."""
        return (self.status, self.expire_at, self.id) if self.condition is None else (self.expire_at, self.id)

    def definition(self, dialect: Dialect) -> str:
        """Answer the key and the condition as CREATE INDEX takes them."""
        quote = dialect.identifier_preparer.quote_identifier
        where = "" if self.condition is None else f"{_WHERE}{self.condition}"
        return f"({', '.join(quote(column) for column in self.columns)}){where}"

    def is_served_by(self, found: FoundIndex, ordering: Ordering) -> bool:
        """True when the due query reads as little through ``found`` as through the one that is wanted."""
        if not found.usable:
            return False
        if found.where is None:
            # Several values come in the order of their deadlines only where each is read by itself, as MySQL does.
            fits = self.condition is None or (len(self.pending) == 1 and self.only is None)
            return fits and self._leads(found, (self.status, self.expire_at), ordering)
        return self._is_condition(found) and self._leads(found, (self.expire_at,), ordering)

    def misfit(self, found: FoundIndex) -> str:
        """Say of an index under our name that does not serve what is wrong with it."""
        if not found.finished:
            return "was left half built"
        if found.columns != self.columns:
            return f"has the columns {', '.join(found.columns) or 'none'}, not {', '.join(self.columns)}"
        if self.condition is not None and not (found.where and self._is_condition(found)):
            return f"{ANOTHER_CONDITION} ({found.made_for}) than the config has now: {self.condition}"
        return "is none that the due query can use"

    def _leads(self, found: FoundIndex, wanted: tuple[str, ...], ordering: Ordering) -> bool:
        rest = found.columns[len(wanted) :]
        named = rest[:1] == (self.id,)
        implied = ordering.ends_with_id and found.complete and not rest
        return found.columns[: len(wanted)] == wanted and (named or implied or ordering.by_groups)

    def _is_condition(self, found: FoundIndex) -> bool:
        # A wider condition ("not closed") would be implied too, but years of paid orders would be read for every page.
        tokens = list(_tokens(found.where or ""))
        only = ["and", *_tokens(self.only)] if self.only else []
        head, tail = tokens[: len(tokens) - len(only)], tokens[len(tokens) - len(only) :]
        return tail == only and _values(head, self.status.casefold()) == {str(value) for value in self.pending}


def due_index(orders: OrdersTable, dialect: Dialect, *, partial: bool) -> DueIndex:
    """Answer the index that is wanted on the described table."""
    name, pending = index_name(orders.qualified.name), orders.states.pending
    index = DueIndex(name, orders.status, orders.expire_at, orders.id, pending, orders.only)
    if not partial:
        return index
    values = [_literal(value, dialect) for value in pending]
    # As the due query says it, letter by letter: SQLite does not see that IN with one value is the same as =.
    condition = f"= {values[0]}" if len(values) == 1 else f"IN ({', '.join(values)})"
    condition = f"{dialect.identifier_preparer.quote_identifier(orders.status)} {condition}"
    return replace(index, condition=f"{condition} AND ({orders.only})" if orders.only else condition)


def index_name(table: str) -> str:
    """Answer the name of our index on a table; a name that would be too long is cut and told apart by a digest."""
    name = PREFIX + table
    if len(name.encode()) <= _NAME_BYTES:
        return name
    digest = "_" + hashlib.sha256(table.encode()).hexdigest()[:_DIGEST_LENGTH]
    return name.encode()[: _NAME_BYTES - len(digest)].decode(errors="ignore") + digest


def _literal(value: StateValue, dialect: Dialect) -> str:
    written = literal(value).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    return str(written)


def _tokens(sql: str) -> Iterator[str]:
    """Cut a condition into words, without what databases add at will: brackets, casts, quotes, upper case."""
    for match in _TOKEN.finditer(sql):
        kind, token = match.lastgroup, match.group()
        if kind == "literal":
            yield token
        elif kind == "name":
            yield token[1:-1].replace(token[0] * 2, token[0]).casefold()
        elif kind != "cast":
            yield _SAME_SIGN.get(token, token.casefold())


def _values(tokens: Sequence[str], status: str) -> set[str] | None:
    """Answer the values that a condition names for the status column; None where it says anything else."""
    values: set[str] = set()
    for part in _split(tokens, "or"):
        match part:
            case [column, "=", "any", "array", first, *rest] if column == status:
                values |= {first, *rest}
            case [column, "in", first, *rest] if column == status:
                values |= {first, *rest}
            case [column, "=", value] if column == status:
                values.add(value)
            case _:
                return None
    return {value[1:-1].replace("''", "'") if value.startswith("'") else value for value in values}


def _split(tokens: Iterable[str], word: str) -> Iterator[list[str]]:
    part: list[str] = []
    for token in tokens:
        if token == word:
            yield part
            part = []
        else:
            part.append(token)
    yield part
