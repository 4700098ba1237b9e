"""``duetime sql``: the statements that run on the configured tables, and those for other programs beside duetime."""

from difflib import get_close_matches
from typing import Annotated, Final

import typer

from duetime.cli.common import ConfigOption, JsonOption, finish, opened, settings_of
from duetime.cli.output import print_json, say
from duetime.cli.recipes import recipe_text
from duetime.errors import InvalidInput
from duetime.settings import Settings
from duetime.stores.sql.plain import RECIPES
from duetime.stores.sql.plain.recipes import Recipe
from duetime.stores.sql.printing import PrintedStatement
from duetime.stores.sql.rights import Grant

GRANTS: Final = "grants"
OTHERS: Final = (GRANTS, *RECIPES)
"""What is printed beside the statements that run."""

_NO_GRANTS: Final = (
    "-- SQLite knows no rights: whoever may write the file, and the folder that it is in, may do everything."
)
_BEFORE_GRANTS: Final = """\
-- What duetime needs on these tables and no more, to be run by their owner; `duetime migrate` too is the owner's.
-- The account itself is yours to create. Behind each right stands what uses it: `duetime sql NAME` prints that.
-- SELECT is given on each of duetime's own tables: `duetime verify` and `duetime doctor` read them all.
"""


def sql(
    ctx: typer.Context,
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Only the one of this name; or grants, place, pay, cancel."),
    ] = None,
    role: Annotated[
        str, typer.Option("--role", metavar="NAME", help="With grants: the account, on MySQL and MariaDB user@host.")
    ] = "duetime",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the statements that run on your tables, or those for you to run.

    They are what your database gets, made of the config and the column types of the database. Parameters are written
    :name, lists :name….

    `sql grants` prints the rights that duetime needs, for the owner of the tables to run. `sql place`, `sql pay` and
    `sql cancel` print whole transactions for programs that do not call duetime, in any language.
    """
    settings = settings_of(ctx, config)
    if name == GRANTS:
        _show_grants(finish(_grants(settings, role)), as_json=as_json)
        return
    if name is not None and name in RECIPES:
        recipe = finish(_recipe(settings, name))
        print_json(recipe) if as_json else say(recipe_text(recipe))
        return
    chosen = _chosen(finish(_printed(settings)), name)
    if as_json:
        print_json(chosen)
        return
    for one in chosen:
        case = f" ({one.case})" if one.case else ""
        say(f"-- {one.name}{case}: {one.purpose}\n{one.sql};\n")


def _chosen(found: list[PrintedStatement], name: str | None) -> list[PrintedStatement]:
    chosen = found if name is None else [one for one in found if one.name == name]
    if not chosen:
        names = sorted({*OTHERS, *(one.name for one in found)})
        near = get_close_matches(name or "", names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
        raise InvalidInput(f"there is no statement {name}; {hint}")
    return chosen


def _show_grants(found: list[Grant], *, as_json: bool) -> None:
    if as_json:
        print_json([{"sql": one.sql, "why": one.why} for one in found])
        return
    if not found:
        say(_NO_GRANTS)
        return
    say(_BEFORE_GRANTS)
    for one in found:
        say(f"{one.sql};  -- {one.why}")


async def _printed(settings: Settings) -> list[PrintedStatement]:
    async with opened(settings, check=False) as duetime:
        return await duetime.wired.store.printed()


async def _grants(settings: Settings, role: str) -> list[Grant]:
    async with opened(settings, check=False) as duetime:
        return await duetime.wired.store.grants(role)


async def _recipe(settings: Settings, name: str) -> Recipe:
    async with opened(settings, check=False) as duetime:
        return await duetime.wired.store.recipe(name)
