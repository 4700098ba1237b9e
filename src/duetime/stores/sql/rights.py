"""The least rights that duetime needs on a shop's database: what ``duetime sql grants`` prints.

They are read off the statements that run: a table that some statement inserts into needs INSERT, and so on. So a new
statement cannot lack its right, and each right can name the statements that it is there for.

* The shop's tables: SELECT, and UPDATE of the very columns that a close, a payment or an extension writes. INSERT on
  the order table is a right of its own, for those who let duetime place orders.
* The own tables: SELECT on all of them, for what only looks (``verify``, ``doctor``, MySQL's list of tables, which
  leaves out what one has no right on); the rest as statements need it. No lists of columns: nobody else writes there.
* To lock a row (``FOR UPDATE``) databases ask for UPDATE of at least one column: nothing is given for locks alone.
* No right to create or alter anything: ``duetime migrate`` is for the tables' owner.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Column, Connection, Delete, Insert, MetaData, String, Table, Update, text
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.visitors import iterate

from duetime.stores.sql.migrating.own_tables import VERSION_TABLE
from duetime.stores.sql.statements import Statements

Used = Sequence[tuple[str, ClauseElement]]

READ: Final = "reads it"
LOOKED_AT: Final = "looks at every start whether it is there"
REVISION: Final = "`duetime doctor` reads at which revision the own tables are"
PLACING: Final = "only where duetime places orders (Duetime.place); leave it out where the shop inserts its own"

_SCHEMA_OF: Final = text(
    "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(:name)"
)
_SEQUENCES: Final = text(
    "SELECT DISTINCT n.nspname, s.relname FROM pg_attrdef d"
    " JOIN pg_depend p ON p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid"
    " AND p.refclassid = 'pg_class'::regclass"
    " JOIN pg_class s ON s.oid = p.refobjid AND s.relkind = 'S' JOIN pg_namespace n ON n.oid = s.relnamespace"
    " WHERE d.adrelid = to_regclass(:name) ORDER BY 1, 2"
)


@dataclass(frozen=True, slots=True)
class Grant:
    """One statement for the tables' owner to run, and what duetime does with the right.

    ``rights``, ``on`` and ``columns`` are the same in pieces, for rights on tables; names are quoted, and the columns
    are some that the right can be tried on.
    """

    sql: str
    why: str
    rights: str = ""
    on: str = ""
    columns: tuple[str, ...] = ()


def grants(connection: Connection, statements: Statements, used: Used, role: str) -> list[Grant]:
    """Answer the statements that give ``role`` what the statements ``used`` need; none where files have no rights."""
    if statements.dialect.name == "sqlite":
        return []
    makers = {"postgresql": _PostgreSQL, "mysql": _MySQL}
    found = makers[statements.dialect.name](connection, statements, used).all(role)
    # A table may be described twice, as order lines and as pieces for example.
    return list({grant.sql: grant for grant in found}.values())


def used_by(statements: Statements, used: Used, *, observes: bool) -> Used:
    """Answer those of the statements that run in a mode: observe mode writes its own table alone, closing never adds.

    Closing still removes what was observed before.
    """
    observed = statements.own.observed

    def runs(statement: ClauseElement) -> bool:
        if isinstance(statement, Insert):
            return (statement.table is observed) is observes
        return not (observes and isinstance(statement, Update | Delete)) or statement.table is observed

    return [(name, statement) for name, statement in used if runs(statement)]


class _Rights:
    """What both kinds of server have in common."""

    def __init__(self, connection: Connection, statements: Statements, used: Used) -> None:
        self._connection = connection
        self._statements = statements
        self._used = used
        self._quote = connection.dialect.identifier_preparer.quote_identifier

    def all(self, role: str) -> Iterator[Grant]:
        to = self.grantee(role)
        for what, why in self.around():
            yield Grant(f"GRANT {what} TO {to}", why)
        for table in self._shop_tables():
            yield self._grant("SELECT", table, to, READ)
            yield from self._updates(table, to)
        for table in self._statements.own.metadata.sorted_tables:
            rights, why = self._own(table)
            yield self._grant(rights, table, to, why)
        yield self._grant("SELECT", self._version_table(), to, REVISION)
        orders = self._statements.orders.table
        if not any(isinstance(one, Insert) and one.table is orders for _, one in self._used):
            return
        yield self._grant("INSERT", orders, to, PLACING)
        for what in self.sequences(orders):
            yield Grant(f"GRANT {what} TO {to}", PLACING)

    def _grant(self, rights: str, table: Table, to: str, why: str) -> Grant:
        on, last = self.full_name(table), list(table.columns)[-1].name
        return Grant(f"GRANT {rights} ON {on} TO {to}", why, rights, on, (self._quote(last),))

    def _version_table(self) -> Table:
        schema = self._statements.own.hold.schema
        return Table(VERSION_TABLE, MetaData(), Column("version_num", String()), schema=schema)

    def around(self) -> Iterator[tuple[str, str]]:
        """Answer what is needed before any table can be used."""
        yield from ()

    def grantee(self, role: str) -> str:
        return self._quote(role)

    def full_name(self, table: Table) -> str:
        raise NotImplementedError

    def sequences(self, table: Table) -> Iterable[str]:  # noqa: ARG002 - where there are none
        """Answer what is needed of the sequences that a table's defaults draw from."""
        return ()

    def _shop_tables(self) -> list[Table]:
        """Answer every table that some statement names and that is not our own; that of the orders first."""
        own = set(self._statements.own.metadata.sorted_tables)
        found = (part for _, statement in self._used for part in iterate(statement) if isinstance(part, Table))
        return [table for table in dict.fromkeys((self._statements.orders.table, *found)) if table not in own]

    def _updates(self, table: Table, to: str) -> Iterator[Grant]:
        columns: dict[str, None] = {}
        names: dict[str, None] = {}
        for name, statement in self._used:
            if isinstance(statement, Update) and statement.table is table:
                columns |= dict.fromkeys(_written(statement))
                names[name] = None
        if columns:
            listed = ", ".join(self._quote(column) for column in columns)
            granted = self._grant(f"UPDATE ({listed})", table, to, ", ".join(names))
            yield replace(granted, columns=tuple(self._quote(column) for column in columns))

    def _own(self, table: Table) -> tuple[str, str]:
        names: dict[str, list[str]] = {"SELECT": []}
        for name, statement in self._used:
            if isinstance(statement, Insert | Update | Delete) and statement.table is table:
                for right in _rights(statement):
                    names.setdefault(right, []).append(name)
        rights = [right for right in ("SELECT", "INSERT", "UPDATE", "DELETE") if right in names]
        users = dict.fromkeys(name for listed in names.values() for name in listed)
        return ", ".join(rights), ", ".join(users) or LOOKED_AT


class _PostgreSQL(_Rights):
    def around(self) -> Iterator[tuple[str, str]]:
        database = self._connection.execute(text("SELECT current_database()")).scalar_one()
        yield f"CONNECT ON DATABASE {self._quote(database)}", "connects"
        tables = [*self._shop_tables(), *self._statements.own.metadata.sorted_tables]
        for schema in dict.fromkeys(self._schema(table) for table in tables):
            yield f"USAGE ON SCHEMA {self._quote(schema)}", "finds the tables in it"

    def full_name(self, table: Table) -> str:
        return f"{self._quote(self._schema(table))}.{self._quote(table.name)}"

    def sequences(self, table: Table) -> Iterable[str]:
        found = self._connection.execute(_SEQUENCES, {"name": self.full_name(table)})
        return [f"USAGE ON SEQUENCE {self._quote(schema)}.{self._quote(name)}" for schema, name in found]

    def _schema(self, table: Table) -> str:
        if table.schema is not None:
            return table.schema
        found = self._connection.execute(_SCHEMA_OF, {"name": self._quote(table.name)}).scalar()
        default = self._connection.dialect.default_schema_name
        return str(found or default or "public")


class _MySQL(_Rights):
    def grantee(self, role: str) -> str:
        user, _, host = role.rpartition("@") if "@" in role else (role, "", "%")
        return f"{_text(user)}@{_text(host)}"

    def full_name(self, table: Table) -> str:
        database = table.schema or self._connection.engine.url.database or ""
        return f"{self._quote(database)}.{self._quote(table.name)}"


def _written(update: Update) -> list[str]:
    """Answer the names of the columns that an UPDATE sets; SQLAlchemy has no public way to ask."""
    values: Any = update._values or ()  # noqa: SLF001 - see above
    return [getattr(column, "name", column) for column in values]


def _rights(statement: Insert | Update | Delete) -> tuple[str, ...]:
    if isinstance(statement, Delete):
        return ("DELETE",)
    if isinstance(statement, Update):
        return ("UPDATE",)
    # ON CONFLICT, ON DUPLICATE KEY: an insert that may become an update.
    return ("INSERT", "UPDATE") if statement._post_values_clause is not None else ("INSERT",)  # noqa: SLF001 - as above


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
