"""Which values a column's kind can hold."""

import pytest
from sqlalchemy import Enum
from sqlalchemy.dialects import mysql, postgresql

from duetime.stores.sql.column_kinds import no_state


@pytest.mark.parametrize(
    "kind, fits",
    [(postgresql.ENUM("open", "Closed", name="state"), False), (mysql.ENUM("open", "Closed"), True)],
    ids=["postgresql", "mysql"],
)
def test_capitals_of_an_enum_count_where_the_database_counts_them(kind: Enum, *, fits: bool) -> None:
    assert no_state(kind, ["open", "Closed"]) == []
    refused = no_state(kind, ["closed"])
    assert refused == ([] if fits else ["allows open, Closed, and 'closed' is none of them"])
