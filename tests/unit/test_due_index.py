import pytest
from sqlalchemy.dialects import mysql, postgresql, sqlite

from duetime.shop import OrdersTable
from duetime.stores.sql.migrating.due_index import DueIndex, FoundIndex, Ordering, due_index, index_name

POSTGRESQL = postgresql.dialect(paramstyle="named")
KEY = ("expire_at", "id")


def wanted(*pending: int | str, only: str = "") -> DueIndex:
    paid, closed = (1, 4) if isinstance(pending[0], int) else ("p", "c")
    states = {"pending": list(pending), "paid": paid, "closed": closed}
    return due_index(OrdersTable.model_validate({"states": states, "only": only}), POSTGRESQL, partial=True)


@pytest.mark.parametrize(
    "pending, condition",
    [
        (("pending",), "((status)::text = 'pending'::text)"),
        (("pending",), "(status = 'pending'::shop.\"Order state\")"),
        (("pending",), "\"status\"='pending'"),
        (("it's",), "((status)::text = 'it''s'::text)"),
        (("a", "b c"), "((status)::text = ANY ((ARRAY['b c'::character varying, 'a'::character varying])::text[]))"),
        (("a", "b"), "((status = 'a'::bpchar) OR (status = 'b'::bpchar))"),
        ((0,), "(status = 0)"),
        ((-1,), "(status = '-1'::integer)"),
        ((0, 2), "(status = ANY (ARRAY[0, 2]))"),
    ],
)
def test_a_condition_is_recognised_however_the_database_words_it(
    pending: tuple[int | str, ...], condition: str
) -> None:
    assert wanted(*pending).is_served_by(FoundIndex("theirs", KEY, where=condition), Ordering())


@pytest.mark.parametrize(
    "condition",
    [
        "((status)::text <> 'pending'::text)",
        "((status)::text = 'PENDING'::text)",
        "((state)::text = 'pending'::text)",
        "((status)::text = ANY (ARRAY['pending'::text, 'paid'::text]))",
        "(((status)::text = 'pending'::text) AND (amount > 0))",
        "(lower((status)::text) = 'pending'::text)",
        "",
    ],
)
def test_another_condition_is_not(condition: str) -> None:
    assert not wanted("pending").is_served_by(FoundIndex("theirs", KEY, where=condition), Ordering())


def test_an_index_without_the_shops_own_condition_does_not_serve() -> None:
    index = wanted("pending", only="is_deleted = 0 and pay_type <> 'cod'")
    with_it = "(((status)::text = 'pending'::text) AND (is_deleted = 0) AND ((pay_type)::text <> 'cod'::text))"
    assert index.is_served_by(FoundIndex("theirs", KEY, where=with_it), Ordering())
    assert not index.is_served_by(FoundIndex("theirs", KEY, where="((status)::text = 'pending'::text)"), Ordering())
    assert not index.is_served_by(FoundIndex("theirs", ("status", *KEY)), Ordering())


@pytest.mark.parametrize(
    "columns, ordering, serves",
    [
        (("expire_at", "id"), Ordering(), True),
        (("expire_at",), Ordering(), False),
        (("expire_at",), Ordering(ends_with_id=True), True),
        (("expire_at",), Ordering(by_groups=True), True),
        (("expire_at", "channel"), Ordering(ends_with_id=True), False),
        (("id", "expire_at"), Ordering(by_groups=True), False),
        ((), Ordering(by_groups=True), False),
    ],
)
def test_the_key_must_lead_to_pages_in_order(columns: tuple[str, ...], ordering: Ordering, *, serves: bool) -> None:
    found = FoundIndex("theirs", columns, where="(status = 'pending'::text)")
    assert wanted("pending").is_served_by(found, ordering) is serves


def test_several_values_need_a_range_each() -> None:
    found = FoundIndex("theirs", ("status", *KEY))
    assert wanted("pending").is_served_by(found, Ordering())
    assert not wanted("pending", "unpaid").is_served_by(found, Ordering())
    orders = OrdersTable.model_validate({"states": {"pending": ["pending", "unpaid"]}})
    assert due_index(orders, mysql.dialect(), partial=False).is_served_by(found, Ordering())


def test_an_index_that_cannot_be_used_does_not_serve() -> None:
    assert not wanted("pending").is_served_by(
        FoundIndex("theirs", KEY, where="(status = 'pending'::text)", usable=False), Ordering()
    )


def test_the_condition_holds_literals_in_the_dialects_quotes() -> None:
    orders = OrdersTable.model_validate({"status": 'Sta"tus', "states": {"pending": ["it's", "b"]}})
    assert due_index(orders, sqlite.dialect(), partial=True).condition == "\"Sta\"\"tus\" IN ('it''s', 'b')"


def test_names_fit_every_database_and_do_not_collide() -> None:
    assert index_name("orders") == "duetime_due_orders"
    long = [index_name("订" * 30), index_name("订" * 31)]
    assert len(set(long)) == len(long)
    assert all(len(name.encode()) <= 63 for name in long)
