"""The whole proposal, from what was found."""

from duetime.adopting import orders
from duetime.adopting.assets import assets_sections, pieces_tables
from duetime.adopting.found import FoundShop, FoundTable
from duetime.adopting.orders import Candidate
from duetime.adopting.proposal import Proposal
from duetime.errors import ConfigError
from duetime.shop import TableName, split_table


def choose(shop: FoundShop, named: str | None) -> tuple[Candidate, list[Candidate]]:
    """Answer the table of the orders and its rivals; ``named`` settles it.

    Raises:
        ConfigError: the name is none, there is no such table, or none that looks like orders.
    """
    found = orders.candidates(shop)
    if named is not None:
        return Candidate(_named(shop, named), named=True), []
    if not found:
        words_of_it = (
            "no table looks like orders: name it with --table" if shop.tables else "there is no table to adopt"
        )
        raise ConfigError([f"--from-url: {words_of_it}; {_there(shop)}"])
    return found[0], found[1:]


def _named(shop: FoundShop, named: str) -> FoundTable:
    try:
        schema, name = split_table(named)
    except ValueError as problem:
        raise ConfigError([f"--table: found {named!r}; {problem}"]) from None
    wanted = TableName(None if schema == shop.schema else schema, name)
    exact = shop.table(wanted)
    if exact is not None:
        return exact
    elsewhere = [table for table in shop.tables if wanted == (None, table.name.name)]
    if not elsewhere:
        raise ConfigError([f"--table: there is no table {named}; {_there(shop)}"])
    if len(elsewhere) > 1:
        several = ", ".join(table.written for table in elsewhere)
        raise ConfigError([f"--table: {named} could be any of {several}: name its schema, too"])
    return elsewhere[0]


def _there(shop: FoundShop) -> str:
    names = [table.written for table in shop.tables]
    shown = ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "")  # noqa: PLR2004 -- as many as one reads
    return f"there are {shown}" if names else "this user may see none in this database"


def questions(shop: FoundShop, chosen: FoundTable) -> dict[FoundTable, list[str]]:
    """Answer which columns of which tables have to be looked at, for a proposal that is more than names."""
    status, times = orders.status_columns(chosen), orders.time_columns(chosen)
    asked = {chosen: [column.name for column in [*status, *times]]}
    for column in status:
        key = chosen.key_of(column.name)
        named = shop.table(key.table) if key is not None else None
        if key is not None and named is not None and named.of_kind("text"):
            asked[named] = [key.target[0], named.of_kind("text")[0].name]
    for table in pieces_tables(shop, chosen):
        asked[table] = [column.name for column in orders.status_columns(table)]
    return asked


def propose(shop: FoundShop, named: str | None) -> Proposal:
    """Propose ``[orders]`` and ``[[assets]]``.

    Raises:
        ConfigError: there is no table that could hold orders.
    """
    chosen, rivals = choose(shop, named)
    sections = (orders.orders_section(shop, chosen, rivals), *assets_sections(shop, chosen.table))
    return Proposal(sections, tuple(name.name for name in shop.unseen))
