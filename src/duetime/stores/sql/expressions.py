"""The shop's own SQL (``orders.only``, ``orders.set``) as parts of statements, and whether the database takes it.

The text goes into the statement as it stands, between parentheses: percent signs and colons mean what they mean to the
database. It is tried once at start, on no row at all, so that a slip is a sentence then and not at the first deadline.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, literal_column
from sqlalchemy.exc import DBAPIError

from duetime.shop import OrdersTable


def shop_sql(written: str) -> ColumnElement[Any]:
    """Put the shop's own SQL into a statement, word by word."""
    return literal_column(f"({written})")


def problems_of(connection: Connection, orders: OrdersTable, table: Table) -> Iterator[str]:
    """Try the condition and the assignments on no row; answer a sentence for each that the database refuses."""
    on = _plain(connection.dialect.identifier_preparer.format_table(table))
    if orders.only is not None:
        tried = f"SELECT 1 FROM {on} WHERE ({orders.only}) LIMIT 0"  # noqa: S608 -- the operator's own words
        yield from _refused(connection, ("orders.only", orders.only), tried)
    for name, written in orders.set.items():
        column = _plain(connection.dialect.identifier_preparer.quote_identifier(name))
        tried = f"EXPLAIN UPDATE {on} SET {column} = ({written}) WHERE 1 = 0"  # noqa: S608 -- as above
        yield from _refused(connection, (f"orders.set.{name}", written), tried)


def _refused(connection: Connection, named: tuple[str, str], tried: str) -> Iterator[str]:
    path, written = named
    if connection.dialect.name in {"mysql", "mariadb"} and "#" in written:
        yield f'{path}: found "#" in {written!r}, which begins a comment here; it could hide the rest of the statement'
        return
    savepoint = connection.begin_nested()
    try:
        connection.exec_driver_sql(tried, execution_options={"no_parameters": True})
    except DBAPIError as error:
        yield f"{path}: the database does not take {written!r}: {_words(error.orig)}"
    finally:
        savepoint.rollback()


def _plain(quoted: str) -> str:
    """Undo the driver's doubled percent signs: these statements are run without parameters, as they stand."""
    return quoted.replace("%%", "%")


def _words(error: BaseException | None) -> str:
    code_and_words = error.args if error is not None and len(error.args) == 2 else (None, error)  # noqa: PLR2004 -- both
    return str(code_and_words[1]).strip().splitlines()[0]
