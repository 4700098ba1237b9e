"""Everything that a database's catalog says about duetime's own tables, as values that can be compared."""

import re

from tests.migrations.database import Database

Catalog = dict[str, set[tuple[object, ...]]]

_POSTGRESQL = {
    "columns": """
        SELECT table_name, column_name, ordinal_position, udt_name, character_maximum_length, datetime_precision,
               collation_name, is_nullable, column_default, identity_generation, generation_expression
        FROM information_schema.columns WHERE table_schema = '{schema}'""",
    "constraints": """
        SELECT c.conrelid::regclass::text, c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c
        JOIN pg_namespace n ON n.oid = c.connamespace WHERE n.nspname = '{schema}'""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = '{schema}'",
    "options": """
        SELECT c.relname, c.relkind::text, c.relpersistence::text, c.reloptions::text FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{schema}'""",
}
_MARIADB = {
    "columns": """
        SELECT table_name, column_name, ordinal_position, column_type, character_set_name, collation_name, is_nullable,
               column_default, extra, generation_expression
        FROM information_schema.columns WHERE table_schema = database()""",
    "indexes": """
        SELECT table_name, index_name, seq_in_index, column_name, non_unique, sub_part, collation, index_type
        FROM information_schema.statistics WHERE table_schema = database()""",
    "checks": """
        SELECT table_name, constraint_name, check_clause FROM information_schema.check_constraints
        WHERE constraint_schema = database()""",
    "options": """
        SELECT table_name, engine, row_format, table_collation, create_options FROM information_schema.tables
        WHERE table_schema = database()""",
}
_SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_SQLITE = {
    "objects": "SELECT tbl_name, type, name, sql FROM sqlite_master",
    "columns": f"SELECT t.name, c.* FROM ({_SQLITE_TABLES}) t, pragma_table_xinfo(t.name) c",
    "indexes": f"""
        SELECT t.name, i.name, i."unique", i.origin, i.partial, x.seqno, x.name, x."desc", x.coll
        FROM ({_SQLITE_TABLES}) t, pragma_index_list(t.name) i, pragma_index_xinfo(i.name) x""",
}
_QUERIES = {"postgresql": _POSTGRESQL, "mariadb": _MARIADB, "sqlite": _SQLITE}


async def own_catalog(database: Database, schema: str = "public") -> Catalog:
    """Answer the catalog of the tables with our prefix, but for the table that Alembic keeps its version in."""
    found: Catalog = {}
    for what, query in _QUERIES[database.kind].items():
        rows = await database.rows(query.format(schema=schema))
        kept = {tuple(_plain(value, schema) for value in row) for row in rows if _is_own(str(row[0]))}
        found[what] = {row for row in kept if row}
    return found


def _is_own(table: str) -> bool:
    name = table.rpartition(".")[2].strip('"')
    return name.startswith("duetime_") and not name.startswith("duetime_version")


def _plain(value: object, schema: str) -> object:
    """Leave out how a definition was laid out, and in which schema."""
    if not isinstance(value, str):
        return value
    text = value.replace(f'"{schema}".', "").replace(f"{schema}.", "")
    return re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", text)).strip()
