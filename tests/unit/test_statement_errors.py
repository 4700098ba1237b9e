"""What a store says about an error that never came from the database."""

import pytest
from sqlalchemy.exc import OperationalError, StatementError

from duetime.errors import StoreDenied, StoreMisfit
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


@pytest.mark.parametrize(
    "code, said, told",
    [
        (1044, "Access denied for user 'clerk'@'%' to database 'shop'", "for user 'clerk'@'%' to database 'shop'"),
        (
            1045,
            "Access denied for user 'clerk'@'h' (using password: YES)",
            "for user 'clerk'@'h' (using password: YES)",
        ),
        (1142, "SELECT command denied to user 'clerk'@'h' for table `shop`.`orders`", ""),
    ],
)
def test_a_right_that_is_missing_names_the_account_and_the_table(code: int, said: str, told: str) -> None:
    failure = MySQL().failure(OperationalError("SELECT 1", {}, Exception(code, said)))
    assert isinstance(failure, StoreDenied)
    assert str(failure) == f"{told or said} ({code})"
