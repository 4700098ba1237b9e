"""Alembic from inside a program: bring the own tables up to date on a connection, or print how."""

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from duetime.errors import ConfigError

VERSION_TABLE: Final = "duetime_version"


def newest() -> str:
    """Answer the revision that this release works with."""
    (head,) = ScriptDirectory.from_config(_config()).get_heads()
    return head


@dataclass(frozen=True, slots=True)
class Home:
    """Where the own tables live: a schema (None: where the connection looks first), and the same quoted."""

    schema: str | None
    quoted: str | None

    @property
    def attributes(self) -> dict[str, Any]:
        """Answer what ``env.py`` reads."""
        return {"schema": self.schema, "prefix": f"{self.quoted}." if self.quoted else ""}


def current(connection: Connection, home: Home) -> str | None:
    """Answer the revision of the tables in a database; None where there are none yet."""
    options = {"version_table": VERSION_TABLE, "version_table_schema": home.schema}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def upgrade(connection: Connection, home: Home, heard: Callable[[str], None]) -> tuple[str, ...]:
    """Run what is missing inside the caller's transaction; answer the revisions that were run.

    Raises:
        ConfigError: the tables were made by a newer release.
    """
    applied: list[str] = []

    def note(*, step: Any, **_: object) -> None:  # noqa: ANN401 - Alembic's own step
        applied.append(step.up_revision_id)
        heard(f"own tables: revision {step.up_revision_id} done")

    _refuse_newer(current(connection, home))
    command.upgrade(_config(connection=connection, on_version_apply=note, **home.attributes), "head")
    return tuple(applied)


def script(dialect: str, home: Home, since: str | None) -> str:
    """Answer the statements that lead from a revision (None: from nothing) to the newest one."""
    _refuse_newer(since)
    output = StringIO()
    config = _config(output=output, dialect_name=dialect, **home.attributes)
    command.upgrade(config, f"{since}:head" if since else "head", sql=True)
    return output.getvalue().strip()


def _config(*, output: StringIO | None = None, **attributes: Any) -> Config:  # noqa: ANN401 - what env.py reads
    config = Config(output_buffer=output or StringIO(), attributes={"version_table": VERSION_TABLE, **attributes})
    config.set_main_option("script_location", "duetime.stores.sql:migrations")
    return config


def _refuse_newer(revision: str | None) -> None:
    if revision is None:
        return
    try:
        ScriptDirectory.from_config(_config()).get_revision(revision)
    except CommandError:
        problem = (
            f"store.url: duetime's own tables are at revision {revision}, this release knows up to {newest()}: the "
            "database was migrated by a newer duetime; install that one"
        )
        raise ConfigError((problem,)) from None
