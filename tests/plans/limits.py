"""How much a statement may touch for each row that it is for."""

from collections.abc import Sequence

import pytest

from tests.plans.watching import Seen
from tests.support.databases import DatabaseKind

PER_ROW: dict[DatabaseKind, int] = {"postgresql": 10, "mariadb": 6, "sqlite": 200}
"""Rows looked at, on SQLite steps. An order has two holds; on PostgreSQL rows leave their old versions behind."""

AT_LEAST: dict[DatabaseKind, int] = {"postgresql": 20, "mariadb": 40, "sqlite": 1000}
BLOCKS_PER_ROW = {"SELECT": 12, "WRITE": 30}
"""PostgreSQL: to find a row by its key reads three blocks of an index and one of the table, and an order has two holds;
a written row has an entry in each of its table's indexes besides. Blocks tell what rows do not: an index that is walked
from end to end for the few entries that fit.
"""

BLOCKS_AT_LEAST = 100


def expect_proportion(kind: DatabaseKind, seen: Sequence[Seen], rows: int, *, first_row_only: bool = False) -> None:
    """Fail when a statement read a whole table, or more than is in proportion to ``rows``."""
    assert seen, "nothing was watched"
    found = [sentence for one in seen for sentence in excess(kind, one, rows, first_row_only=first_row_only)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def excess(kind: DatabaseKind, one: Seen, rows: int, *, first_row_only: bool = False) -> list[str]:
    """Say what a statement touches beyond its share.

    ``first_row_only``: it stops at the first row that it finds, so that a scan need not go on to the end.
    """
    most = AT_LEAST[kind] + PER_ROW[kind] * rows
    blocks = BLOCKS_AT_LEAST + BLOCKS_PER_ROW.get(one.verb, BLOCKS_PER_ROW["WRITE"]) * rows
    found = []
    if one.read_whole and not first_row_only:
        found.append("reads a table from end to end")
    if one.touched > most:
        found.append(f"for {rows} rows at most {most}")
    if one.blocks > blocks:
        found.append(f"for {rows} rows at most {blocks} blocks")
    return [f"{one}: {sentence}\n{one.statement}\n{one.plan}" for sentence in found]
