"""What a name in the configuration stands for in the database: a table whose rows can be locked, or something else."""

from typing import Final

from sqlalchemy import Connection, text

from duetime.shop import TableName

_POSTGRESQL: Final = text("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(:name)")
_MYSQL: Final = text(
    "SELECT table_type, engine, create_options FROM information_schema.tables "
    "WHERE table_schema = coalesce(:schema, database()) AND table_name = :name"
)
_KINDS: Final = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a type",
    "VIEW": "a view",
    "SYSTEM VIEW": "a view",
    "SEQUENCE": "a sequence",
}
_PARTITIONED: Final = "p"


def not_a_table(connection: Connection, name: TableName) -> str | None:
    """Answer what a name stands for where that is no table of rows, such as "a view"; None for a table.

    A view may show each row in another form, or two of them as one: locks and guarded writes need the rows themselves.
    """
    return _KINDS.get(_kind(connection, name))


def unsafe_engine(connection: Connection, name: TableName) -> str | None:
    """Answer the storage engine of a table of MySQL or MariaDB that knows no transactions; None where all is well."""
    if connection.dialect.name not in {"mysql", "mariadb"}:
        return None
    row = connection.execute(_MYSQL, name._asdict()).first()
    return None if row is None or row[1] in {None, "InnoDB"} else str(row[1])


def is_partitioned(connection: Connection, name: TableName) -> bool:
    """Say whether a table's rows lie in partitions, which need their key in every unique index."""
    if connection.dialect.name in {"mysql", "mariadb"}:
        row = connection.execute(_MYSQL, name._asdict()).first()
        return row is not None and "partitioned" in str(row[2]).lower()
    return _kind(connection, name) == _PARTITIONED


def _kind(connection: Connection, name: TableName) -> str:
    match connection.dialect.name:
        case "postgresql":
            quote = connection.dialect.identifier_preparer.quote_identifier
            # The name is bound, not written into the statement: percent signs are not doubled in it.
            quoted = ".".join(quote(part).replace("%%", "%") for part in name if part is not None)
            found = connection.execute(_POSTGRESQL, {"name": quoted}).scalar()
        case "mysql" | "mariadb":
            row = connection.execute(_MYSQL, name._asdict()).first()
            found = row[0] if row is not None else None
        case _:
            schema = connection.dialect.identifier_preparer.quote_identifier(name.schema or "main").replace(":", "\\:")
            query = f"SELECT type FROM {schema}.sqlite_master WHERE lower(name) = lower(:name)"  # noqa: S608 -- quoted
            found = connection.execute(text(query + " AND type IN ('table', 'view')"), {"name": name.name}).scalar()
            return "VIEW" if found == "view" else str(found)
    return str(found)
