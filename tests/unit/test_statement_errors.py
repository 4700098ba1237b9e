"""What a store says about an error that never came from the database."""

import pytest
from sqlalchemy.exc import StatementError

from duetime.errors import StoreMisfit
from duetime.stores.sql.dialect import SqlDialect
from duetime.stores.sql.mysql import MySQL
from duetime.stores.sql.postgresql import PostgreSQL


@pytest.mark.parametrize("dialect", [PostgreSQL(), MySQL()], ids=lambda dialect: dialect.name)
def test_statement_that_could_not_be_written_is_no_lost_connection(dialect: SqlDialect) -> None:
    """Taken for one, it would be tried again for ever, and its parameters would stand in the logs."""
    error = StatementError("no such name", "UPDATE orders SET x = :y", {"y": "a customer's name"}, KeyError("Status_P"))
    failure = dialect.failure(error)
    assert isinstance(failure, StoreMisfit)
    assert str(failure) == "a statement could not be written: KeyError: 'Status_P'"
