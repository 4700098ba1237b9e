from typing import Any

import pytest
from pydantic import ValidationError

from duetime.shop import Asset, FromLines, OrdersTable, States, TableName, sample_assets, split_table

COUNTER = {"kind": "stock", "storage": "counter", "table": "sku", "key": "id", "available": "n"}
INSTANCE = {
    "kind": "seat",
    "storage": "instance",
    "table": "seat",
    "key": "id",
    "state": "s",
    "held_value": 1,
    "free_value": 0,
}


def refusal(model: type[OrdersTable | Asset | States | FromLines], data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return str(caught.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("orders", (None, "orders")),
        ("mall.t_order", ("mall", "t_order")),
        ('"my.mall".t_order', ("my.mall", "t_order")),
        ('mall."t.order"', ("mall", "t.order")),
        ('"t.order"', (None, "t.order")),
        ('"a""b".c', ('a"b', "c")),
        ("a.b.c", ("a", "b.c")),
        ("订单.明细", ("订单", "明细")),
    ],
)
def test_table_is_split_at_the_first_dot_outside_quotes(text: str, expected: tuple[str | None, str]) -> None:
    assert split_table(text) == TableName(*expected)
    assert OrdersTable(table=text).qualified == expected
    assert Asset.model_validate({**COUNTER, "table": text}).qualified == expected


@pytest.mark.parametrize("text", [".orders", "mall.", '"open', 'a"b.c', '"".x', ""])
def test_table_with_an_empty_or_broken_part_is_refused(text: str) -> None:
    refusal(OrdersTable, {"table": text})


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "x" * 129, "\ud800", 3, None, ["a"]])
def test_names_that_no_database_takes_are_refused(name: object) -> None:
    assert "order_no" in refusal(OrdersTable, {"order_no": name})


@pytest.mark.parametrize("name", ["x" * 128, "订单号", 'a"b', "drop table x; --", "select", "a b"])
def test_odd_names_stay_as_they_are(name: str) -> None:
    assert OrdersTable(order_no=name).order_no == name


def test_defaults_describe_the_sample_shop() -> None:
    table = OrdersTable()
    assert (table.table, table.closed_at, table.amount, table.currency) == (
        "orders",
        "closed_at",
        "amount_minor",
        "currency",
    )
    assert table.states == States(pending=("pending",), paid="paid", closed="closed", closing=None)
    stock, coupon = sample_assets()
    assert (stock.kind, stock.key, stock.available, stock.held) == ("stock", ("sku_id",), "available", "held")
    assert (coupon.kind, coupon.held_value, coupon.valid_until, coupon.held) == (
        "coupon",
        "locked",
        "valid_until",
        None,
    )


@pytest.mark.parametrize("key", ["closed_at", "close_reason", "close_source", "category", "amount", "currency", "only"])
def test_empty_means_that_the_shop_has_no_such_column(key: str) -> None:
    assert getattr(OrdersTable.model_validate({key: ""}), key) is None


def test_currency_is_a_column_or_a_constant() -> None:
    assert OrdersTable(currency="cur").currency_column == "cur"
    assert OrdersTable(currency="cur").currency_constant is None
    assert OrdersTable(currency="=CNY").currency_constant == "CNY"
    assert OrdersTable(currency="=CNY").currency_column is None
    assert OrdersTable(currency=None).currency_column is None
    refusal(OrdersTable, {"currency": "="})


def test_states_stay_integers_or_text() -> None:
    states = States.model_validate({"pending": [0, 5], "paid": 1, "closed": 4, "closing": 9})
    assert (states.pending, states.paid, states.closed, states.closing) == ((0, 5), 1, 4, 9)
    assert States.model_validate({"pending": "0", "paid": "1", "closed": "4"}).pending == ("0",)
    assert States(closing="").closing is None


@pytest.mark.parametrize(
    "data, path",
    [
        ({"pending": True, "paid": 2, "closed": 3}, "pending"),
        ({"pending": 0, "paid": False, "closed": 3}, "paid"),
        ({"pending": 0, "paid": 1.0, "closed": 3}, "paid"),
        ({"pending": [], "paid": 1, "closed": 3}, "pending"),
        ({"pending": [0, 0], "paid": 1, "closed": 3}, "pending"),
        ({"pending": 0, "paid": 1, "closed": 1}, "closed"),
        ({"pending": 0, "paid": 1, "closed": 2, "closing": 0}, "closing"),
        ({"pending": 0, "paid": 1, "closed": 2**63}, "closed"),
        ({"pending": 0, "paid": "1", "closed": 3}, "integers or text, not both"),
        ({"pending": ""}, "pending"),
        ({"pendin": "x"}, "pendin"),
    ],
)
def test_states_that_cannot_be_told_apart_are_refused(data: dict[str, Any], path: str) -> None:
    assert path in refusal(States, data)


def test_time_form_is_one_or_by_column() -> None:
    assert OrdersTable(time_form="Asia/Shanghai").time_form == "Asia/Shanghai"
    assert OrdersTable(time_form={"expire_at": "epoch_ms"}).time_form == {"expire_at": "epoch_ms"}
    for wrong in ("instnat", "+08:00", "", 8, {"expire_at": "x"}, {"": "instant"}):
        refusal(OrdersTable, {"time_form": wrong})


def test_a_key_may_be_of_several_columns() -> None:
    assert Asset.model_validate({**COUNTER, "key": ["w", "sku"]}).key == ("w", "sku")
    for wrong in (["w", "w"], [], [1], 3, ""):
        refusal(Asset, {**COUNTER, "key": wrong})


@pytest.mark.parametrize("key", ["table", "key", "available"])
def test_counter_needs_its_columns(key: str) -> None:
    assert f'{key}: is missing; storage = "counter" needs it' in refusal(Asset, {**COUNTER, key: ""})


@pytest.mark.parametrize("key", ["table", "key", "state", "held_value", "free_value"])
def test_instance_needs_its_columns_and_values(key: str) -> None:
    data = {name: value for name, value in INSTANCE.items() if name != key}
    assert f'{key}: is missing; storage = "instance" needs it' in refusal(Asset, data)


def test_held_column_is_only_left_out_when_that_is_said() -> None:
    assert Asset.model_validate(COUNTER).held == "held"
    assert Asset.model_validate({**COUNTER, "held": ""}).held is None


def test_zero_is_a_value_and_not_an_absent_one() -> None:
    assert Asset.model_validate(INSTANCE).free_value == 0


@pytest.mark.parametrize(
    "data, path",
    [
        ({**COUNTER, "state": "s"}, "state"),
        ({**COUNTER, "publisher": "p"}, "publisher"),
        ({**INSTANCE, "available": "n"}, "available"),
        ({**INSTANCE, "held": "n"}, "held"),
        ({"kind": "points", "storage": "remote", "table": "t"}, "table"),
        ({"kind": "points", "storage": "remote", "release": "after"}, "release"),
        ({**INSTANCE, "free_value": 1}, "free_value"),
        ({**INSTANCE, "used_value": 1}, "used_value"),
        ({**INSTANCE, "valid_until": "until"}, "expired_value"),
        ({**INSTANCE, "held_value": True}, "held_value"),
        ({**COUNTER, "kind": ""}, "kind"),
        ({**COUNTER, "storage": "counted"}, "storage"),
        ({**COUNTER, "colour": "red"}, "colour"),
    ],
)
def test_keys_that_do_not_fit_the_storage_are_refused(data: dict[str, Any], path: str) -> None:
    assert path in refusal(Asset, data)


def test_remote_asset_has_no_table() -> None:
    points = Asset(kind="points", storage="remote")
    with pytest.raises(ValueError, match="another service"):
        _ = points.qualified


def test_order_lines_point_at_the_order_in_one_way() -> None:
    lines = {"table": "m.item", "ref": "sku", "quantity": "n"}
    asset = Asset.model_validate({**COUNTER, "from": {**lines, "order_no": "sn"}})
    assert asset.from_lines is not None
    assert asset.from_lines.qualified == ("m", "item")
    assert FromLines.model_validate({**lines, "order_id": "oid"}).order_no is None
    for wrong in (lines, {**lines, "order_no": "a", "order_id": "b"}):
        assert "exactly one" in refusal(FromLines, wrong)


def test_description_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        OrdersTable().table = "other"
