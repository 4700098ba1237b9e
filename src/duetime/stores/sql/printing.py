"""The statements as text: what ``duetime sql`` prints, so that a DBA can read and EXPLAIN them.

They are the statements that run. Those that ``Statements`` keeps are taken from there; those that are made for each
call are caught on their way to the database, by a connection that has none behind it. Only the parameters look
different: ``:order_nos`` instead of the driver's placeholders, ``:order_nos…`` for a list that is written out.
"""

import inspect
import itertools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Dialect, Insert
from sqlalchemy import Uuid as UuidType
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ClauseElement

from duetime.event import FactType, fact
from duetime.hold import Effect, HeldHold, Hold, HoldState
from duetime.observation import Observation, Seen
from duetime.order import Order, State
from duetime.store import CloseNote, Failure, NewOrder, OrderNote, OrderWrite, Payment, Quarantine, Stage, SweepRun
from duetime.stores.sql.dialect import PREFIX
from duetime.stores.sql.statements import Statements

_LIST: Final = re.compile(r":(\w+)_1, :\1_2\b")
_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")
_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_HELD: Final = HeldHold("1", Hold("stock", "1"))

_OBSERVED: Final = Observation("1", _AT, _AT, Seen.PENDING)

_UNUSED: Final = {
    ("lock_orders", (("due", True), ("pending", True), ("wait", True))),
    ("lock_orders", (("due", True), ("pending", False), ("wait", True))),
    ("lock_orders", (("due", True), ("pending", False), ("wait", False))),
    ("lock_orders", (("due", False), ("pending", False), ("wait", False))),
    ("find_failures", (("by_order", True), ("by_stage", True), ("by_time", True))),
    ("find_failures", (("by_order", True), ("by_stage", False), ("by_time", True))),
    ("find_failures", (("by_order", False), ("by_stage", False), ("by_time", True))),
}
"""Statements that could be made and that nothing asks for."""


@dataclass(frozen=True, slots=True)
class PrintedStatement:
    """One statement: its name, the case it is for where there are several, its purpose, and its text."""

    name: str
    case: str
    purpose: str
    sql: str


class _Paper:
    """A connection with no database behind it: it keeps what it is given."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self.caught: list[tuple[ClauseElement, Any]] = []

    async def execute(self, statement: ClauseElement, parameters: Any = None) -> Any:  # noqa: ANN401 - any statement
        self.caught.append((statement, parameters))
        rows = self._rows(statement)
        one = _AT.replace(tzinfo=None) if self._statements.dialect.name == "mysql" else _AT
        return SimpleNamespace(all=lambda: rows, one=lambda: (one,), scalar_one=lambda: one, rowcount=1)

    def _rows(self, statement: ClauseElement) -> list[Any]:
        if statement is self._statements.find_consumers():
            return [SimpleNamespace(name="1", events=[FactType.ORDER_PLACED.value])]
        if statement is self._statements.find_seqs():
            return [SimpleNamespace(event_id="1", seq=1)]
        return []


Operations = Callable[[AsyncConnection, Statements, datetime], Any]


async def printed(statements: Statements, dialect: Dialect, operations: Operations) -> list[PrintedStatement]:
    """Answer every statement for these tables; ``operations`` makes a transaction's operations over a connection."""
    dialect = named(dialect)
    found = [
        PrintedStatement(name, case, purpose, _text(statement, dialect, None))
        for name, case, purpose, statement in _kept(statements)
    ]
    caught = [
        PrintedStatement(name, "", purpose, _text(statement, dialect, parameters))
        for name, purpose, statement, parameters in await _caught(statements, operations)
    ]
    return sorted((*found, *caught), key=lambda one: (one.name, one.case))


async def all_statements(statements: Statements, operations: Operations) -> list[tuple[str, ClauseElement]]:
    """Answer every statement for these tables by its name, as it is built and not as text."""
    kept = [(name, statement) for name, _, _, statement in _kept(statements)]
    return kept + [(name, statement) for name, _, statement, _ in await _caught(statements, operations)]


def named(dialect: Dialect) -> Dialect:
    """Answer the dialect with all that it learned from the server, writing parameters by name."""
    by_name = copy(dialect)
    by_name.paramstyle, by_name.positional = "named", False
    by_name.identifier_preparer = by_name.preparer(by_name)
    return by_name


# What Statements keeps


def _kept(statements: Statements) -> Iterator[tuple[str, str, str, ClauseElement]]:
    for name, method in inspect.getmembers(Statements, inspect.isfunction):
        signature = inspect.signature(method)
        # An insert takes the columns of the rows that it is given: it is caught with some.
        if not hasattr(method, "__wrapped__") or signature.return_annotation is Insert:
            continue
        names = list(signature.parameters)[1:]
        for values in itertools.product(*(_choices(statements, one) for one in names)):
            given = tuple(zip(names, values, strict=True))
            if (name, given) in _UNUSED or not _makes_sense(statements, name, dict(given)):
                continue
            statement = getattr(statements, name)(**dict(given))
            if statement is not None:
                yield name, _case(given), _purpose(method), statement


def _choices(statements: Statements, parameter: str) -> Sequence[object]:
    if parameter == "kind":
        return list(statements.shop.assets)
    return list(Effect) if parameter == "effect" else [False, True]


def _makes_sense(statements: Statements, name: str, given: Mapping[str, object]) -> bool:
    kind = given.get("kind")
    if name == "read_lines":
        return kind in statements.shop.lines
    if kind is not None and statements.shop.assets[str(kind)] is None:
        return False
    storage = statements.asset(str(kind)).settings.storage if kind is not None else None
    return {"change_counter": "counter", "change_instance": "instance"}.get(name, storage) == storage


def _case(given: Sequence[tuple[str, object]]) -> str:
    words = (name if value is True else f"not {name}" if value is False else str(value) for name, value in given)
    return ", ".join(words).replace("_", " ")


def _purpose(method: Callable[..., object]) -> str:
    return (inspect.getdoc(method) or "").splitlines()[0].rstrip(".").replace("``", "")


# What is made for each call


async def _caught(
    statements: Statements, operations: Operations
) -> list[tuple[str, str, ClauseElement, Any]]:  # fmt: skip
    found = []
    for name, purpose, work in _calls(statements):
        paper = _Paper(statements)
        await work(operations(paper, statements, _AT))  # type: ignore[arg-type]  # a connection as far as it is used
        kept = {id(statement) for statement in statements.memo.values() if not isinstance(statement, Insert)}
        new = [pair for pair in paper.caught if id(pair[0]) not in kept]
        parts = ["", *(f"_{number}" for number in range(2, len(new) + 1))]
        found += [(name + part, purpose, *pair) for part, pair in zip(parts, new, strict=False)]
    return found


_Call = tuple[str, str, Callable[[Any], Awaitable[object]]]


def _calls(statements: Statements) -> list[_Call]:
    order = Order(_key(statements), "1", State.PENDING, "1", _AT)
    close = OrderWrite(order, State.CLOSED, due_by=_AT, close=CloseNote(_AT, "timeout", "sweep"))
    failure = Failure("1", Stage.CLOSE, 1, _AT, _AT, _AT, Quarantine.RETRYING, "why")
    run = SweepRun(0, "worker", _AT, _AT, 0, 0, None, pending_seen=True)
    new = NewOrder(_number(statements), _AT, "default", "1", 1, "CNY")
    placed = fact("1", "1", FactType.ORDER_PLACED)
    return [
        ("begin", "Open a transaction: read the clock, set its bounds", lambda tx: _begin(statements, tx)),
        ("insert_orders", "Place orders", lambda tx: tx.insert_orders([new])),
        ("insert_holds", "Record what orders have taken", lambda tx: tx.insert_holds([_HELD])),
        ("move_holds", "Give back or use up holds", lambda tx: tx.move_holds([_HELD], HoldState.RELEASED, _AT)),
        (
            "add_facts",
            "Write facts; then what is owed of them to each consumer",
            lambda tx: tx.add_facts([placed], _AT),
        ),
        ("put_notes", "Keep extensions and policy", lambda tx: tx.put_notes([OrderNote("1")])),
        ("put_close_notes", "Keep what the shop has no column for", lambda tx: tx.write_if_pending([close])),
        ("put_observed", "Keep what observe mode saw", lambda tx: tx.put_observed([_OBSERVED])),
        ("put_failures", "Keep the books on what failed", lambda tx: tx.put_failures([failure])),
        ("record_payments", "Write a payment notice down", lambda tx: tx.record_payments([_payment()])),
        ("put_lease", "Say that a worker is alive", lambda tx: tx.renew_lease("worker", timedelta(seconds=10))),
        ("put_sweep_run", "Write down that the sweep ran", lambda tx: tx.put_sweep_run(run)),
    ]


async def _begin(statements: Statements, tx: Any) -> None:  # noqa: ANN401 - the operations over paper
    await statements.dialect.begin(tx._connection)  # noqa: SLF001 - the paper that was put there


def _payment() -> Payment:
    return Payment("1", "1", "provider", 1, "CNY", _AT, "paid")


def _number(statements: Statements) -> str:
    """Answer an order number of the kind that the shop's column holds."""
    is_uuid = isinstance(statements.orders.needed("order_no").type, UuidType)
    return str(UUID(int=1)) if is_uuid else "1"


def _key(statements: Statements) -> Any:  # noqa: ANN401 - the type of the shop's primary key
    kind = statements.orders.needed("id").type
    return UUID(int=1) if isinstance(kind, UuidType) else 1


# As text


def _text(statement: ClauseElement, dialect: Dialect, parameters: Any) -> str:  # noqa: ANN401 - as it was executed
    row = parameters[0] if isinstance(parameters, list) else parameters
    keys = list(row) if isinstance(row, Mapping) and isinstance(statement, Insert) else None
    compiled: Any = statement.compile(dialect=dialect, column_keys=keys, for_executemany=isinstance(parameters, list))
    binds: Mapping[str, Any] = getattr(compiled, "binds", {})
    fixed = {name: None if one.required else one.value for name, one in binds.items()}
    values = {name: [None, None] if one.expanding else fixed[name] for name, one in binds.items()}
    text = compiled.construct_expanded_state(values, escape_names=False).statement
    constants = {name: value for name, value in values.items() if not name.startswith(PREFIX)}

    def shown(found: re.Match[str]) -> str:
        value = constants.get(found[1])
        # SQLAlchemy marks a value that is still to be given with an integer of a type of its own.
        if type(value) is str or type(value) is int:
            return _literal(value)
        return f":{found[1].removeprefix(PREFIX)}"

    return _PARAMETER.sub(shown, _LIST.sub(r":\1…", text)).strip()


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
