"""``duetime migrate``."""

from typing import Annotated

import typer

from duetime import logs
from duetime.cli.common import ConfigOption, JsonOption, finish, settings_of
from duetime.cli.output import print_json, say
from duetime.cli.progress import Progress
from duetime.stores.sql.migrate import MigrationReport, Migrator
from duetime.wiring import migrator


def migrate(
    ctx: typer.Context,
    *,
    config: ConfigOption = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the statements instead; no database is needed.")] = False,
    no_shop_ddl: Annotated[
        bool, typer.Option("--no-shop-ddl", help="Leave the shop's tables alone: no index for the deadlines.")
    ] = False,
    sample_shop: Annotated[
        bool, typer.Option("--sample-shop", help="Create the tables of the sample shop too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create or upgrade duetime's tables and its index.

    The index, on the shop's table, is what finds due orders without reading all. The shop goes on writing meanwhile.
    It is safe to run this twice, and after it was cut off.
    """
    tables = migrator(settings_of(ctx, config))
    if sql:
        printed = tables.sql(shop_ddl=not no_shop_ddl, sample_shop=sample_shop)
        if as_json:
            print_json({"sql": printed})
        else:
            say(printed.rstrip("\n"))
        return
    logs.set_up()
    report = finish(_migrated(tables, shop_ddl=not no_shop_ddl, sample_shop=sample_shop))
    if as_json:
        print_json(report)
    else:
        say(_summary(report))


async def _migrated(tables: Migrator, *, shop_ddl: bool, sample_shop: bool) -> MigrationReport:
    with Progress("migrating") as progress:
        return await tables.run(shop_ddl=shop_ddl, sample_shop=sample_shop, progress=progress.said)


def _summary(report: MigrationReport) -> str:
    done = "created or upgraded" if report.applied else "up to date"
    parts = [f"duetime's own tables are {done} (revision {report.revision})"]
    if report.sample_tables:
        parts.append(f"the sample shop's tables were created: {', '.join(report.sample_tables)}")
    if report.index:
        parts.append(f"the deadlines have their index ({report.index}{', built now' if report.index_built else ''})")
    return "; ".join(parts)
