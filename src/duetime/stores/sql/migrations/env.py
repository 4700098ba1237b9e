"""What Alembic calls for each command: on the connection that the caller holds, or, without one, printing."""

from typing import Any

from alembic import context


def _configure(attributes: dict[str, Any]) -> None:
    shared = {"version_table": attributes["version_table"], "version_table_schema": attributes["schema"]}
    if context.is_offline_mode():
        # Printed statements are read by people and consoles: no driver will halve a doubled percent sign.
        named = {"paramstyle": "named"}
        context.configure(dialect_name=attributes["dialect_name"], dialect_opts=named, literal_binds=True, **shared)
    else:
        heard = attributes["on_version_apply"]
        context.configure(connection=attributes["connection"], on_version_apply=heard, **shared)


_configure(context.config.attributes)
with context.begin_transaction():
    context.run_migrations(prefix=context.config.attributes["prefix"])
