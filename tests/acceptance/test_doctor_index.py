"""`duetime doctor` on an index of ours that does not serve: what is wrong with it, not that it was left half built."""

from collections.abc import Callable

import pytest

from duetime.doctor import Grade
from tests.support.patient import INDEX, KINDS, Patient
from tests.support.servers import run_apart


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def test_an_index_for_another_condition_is_called_that(kind: str, patients: Callable[[str], Patient]) -> None:
    patient = patients(kind)
    patient.only = "channel <> 'cod'"
    (line,) = (one for one in run_apart(patient.lines()) if one.check == "index")
    assert line.grade is Grade.FAILED
    assert f"{INDEX} was made for another condition (" in line.found, line.found
    assert "now: status = 'pending' AND (channel <> 'cod')" in line.found.replace('"', ""), line.found
    assert "half built" not in line.found
    assert "set orders.only and orders.states back" in line.remedy


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_ours_with_other_columns_is_called_that(kind: str, patients: Callable[[str], Patient]) -> None:
    patient = patients(kind)
    on = " ON orders" if kind == "mariadb" else ""
    run_apart(patient.treat([f"DROP INDEX {INDEX}{on}", f"CREATE INDEX {INDEX} ON orders (order_no, expire_at)"]))
    try:
        (line,) = (one for one in run_apart(patient.lines()) if one.check == "index")
    finally:
        run_apart(patient.treat([f"DROP INDEX {INDEX}{on}", "migrate"]))
    assert f"{INDEX} has the columns order_no, expire_at" in line.found, line.found
