"""The shop's own hand on its database: plain SQL through a driver that duetime does not use for its work."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from sqlalchemy import create_engine, make_url
from sqlalchemy.pool import NullPool

Row = tuple[Any, ...]


class ShopHand(ABC):
    """One session."""

    quote_mark: str

    @abstractmethod
    def __init__(self, url: str, zone: str) -> None:
        """Connect; every session of this shop has ``zone`` where one is named."""

    @staticmethod
    @abstractmethod
    def zone_option(zone: str) -> str:
        """Answer what a URL says to give its sessions a zone."""

    @abstractmethod
    def script(self, text: str) -> None:
        """Run statements as they stand, in the open transaction."""

    @abstractmethod
    def rows(self, query: str) -> tuple[list[str], Sequence[Row]]:
        """Answer the names of a result's columns, and its rows."""

    @abstractmethod
    def tables(self) -> list[tuple[str, str]]:
        """Answer schema and name of every table that is not duetime's."""

    @abstractmethod
    def structure(self) -> dict[str, set[Row]]:
        """Answer everything that is defined for the tables that are not duetime's, by kind."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction."""

    @abstractmethod
    def rollback(self) -> None:
        """Take the transaction back."""

    @abstractmethod
    def close(self) -> None:
        """End the session."""

    def primary_key(self, schema: str, table: str) -> list[str]:
        """Answer the columns of a table's primary key."""
        query = (
            "SELECT k.column_name FROM information_schema.key_column_usage k JOIN information_schema.table_constraints"
            " t ON t.constraint_name = k.constraint_name AND t.table_schema = k.table_schema"
            " AND t.table_name = k.table_name WHERE t.constraint_type = 'PRIMARY KEY'"
            f" AND k.table_schema = {_text(schema)} AND k.table_name = {_text(table)} ORDER BY k.ordinal_position"
        )
        return [row[0] for row in self.rows(query)[1]]

    def quote(self, name: str) -> str:
        return self.quote_mark + name.replace(self.quote_mark, 2 * self.quote_mark) + self.quote_mark


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_OURS = "LIKE 'duetime\\_%'"
_MULTI_STATEMENTS = 1 << 16
"""What MySQL's protocol calls a session that may send several statements at once."""


class PostgreSQLHand(ShopHand):
    """On PostgreSQL."""

    quote_mark = '"'

    def __init__(self, url: str, zone: str) -> None:
        import psycopg  # noqa: PLC0415 -- an extra: without it these tests are skipped, the others run

        self._connection = psycopg.connect(url, options=f"-c timezone={zone}" if zone else None)

    @staticmethod
    def zone_option(zone: str) -> str:
        return f"options=-c%20timezone%3D{zone}"

    def script(self, text: str) -> None:
        self._connection.execute(text.encode())

    def rows(self, query: str) -> tuple[list[str], Sequence[Row]]:
        cursor = self._connection.execute(query.encode())
        return [column.name for column in cursor.description or ()], cursor.fetchall()

    def tables(self) -> list[tuple[str, str]]:
        query = (
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            f" AND tablename NOT {_OURS} ORDER BY 1, 2"
        )
        return [(row[0], row[1]) for row in self.rows(query)[1]]

    def structure(self) -> dict[str, set[Row]]:
        shops = f"table_schema NOT IN ('pg_catalog', 'information_schema') AND table_name NOT {_OURS}"
        queries = {
            "columns": f"SELECT table_schema, table_name, column_name, ordinal_position, data_type, is_nullable, "
            f"column_default, generation_expression FROM information_schema.columns WHERE {shops}",
            "indexes": "SELECT schemaname, tablename, indexname, indexdef FROM pg_indexes "
            f"WHERE schemaname <> 'pg_catalog' AND tablename NOT {_OURS}",
            "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
            f"WHERE conrelid <> 0 AND conrelid::regclass::text NOT {_OURS}",
            "triggers": "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger "
            f"WHERE NOT tgisinternal AND tgrelid::regclass::text NOT {_OURS}",
        }
        return {kind: set(self.rows(query)[1]) for kind, query in queries.items()}

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


class MariaDBHand(ShopHand):
    """On MariaDB and MySQL."""

    quote_mark = "`"

    def __init__(self, url: str, zone: str) -> None:
        first = f"SET time_zone = '{zone}'" if zone else None
        driven = make_url(url).set(drivername="mysql+pymysql")
        self._engine = create_engine(
            driven, poolclass=NullPool, connect_args={"client_flag": _MULTI_STATEMENTS, "init_command": first}
        )
        self._connection = self._engine.raw_connection()

    @staticmethod
    def zone_option(zone: str) -> str:
        return f"init_command=SET%20time_zone%20%3D%20%27{zone}%27"

    def script(self, text: str) -> None:
        cursor = self._connection.cursor()
        cursor.execute(text)
        while cursor.nextset():
            pass

    def rows(self, query: str) -> tuple[list[str], Sequence[Row]]:
        cursor = self._connection.cursor()
        cursor.execute(query)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()

    def tables(self) -> list[tuple[str, str]]:
        query = (
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = database()"
            f" AND table_type = 'BASE TABLE' AND table_name NOT {_OURS} ORDER BY 1, 2"
        )
        return [(row[0], row[1]) for row in self.rows(query)[1]]

    def structure(self) -> dict[str, set[Row]]:
        shops = f"table_schema = database() AND table_name NOT {_OURS}"
        queries = {
            "columns": "SELECT table_schema, table_name, column_name, ordinal_position, column_type, is_nullable, "
            f"column_default, extra, column_comment, collation_name FROM information_schema.columns WHERE {shops}",
            "indexes": "SELECT table_schema, table_name, index_name, group_concat(column_name ORDER BY seq_in_index) "
            f"FROM information_schema.statistics WHERE {shops} GROUP BY table_schema, table_name, index_name",
            "constraints": "SELECT table_schema, table_name, constraint_name, constraint_type "
            f"FROM information_schema.table_constraints WHERE {shops}",
            "triggers": "SELECT event_object_schema, event_object_table, trigger_name, action_statement "
            "FROM information_schema.triggers WHERE event_object_schema = database()",
        }
        return {kind: set(self.rows(query)[1]) for kind, query in queries.items()}

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()
