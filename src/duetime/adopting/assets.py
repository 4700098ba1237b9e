"""What orders hold: a table that counts units, tables with a row for each piece, the lines that tell which order."""

from collections.abc import Iterator

from duetime.adopting import words
from duetime.adopting.found import FoundColumn, FoundKey, FoundShop, FoundTable
from duetime.adopting.orders import labels_of, status_columns, time_columns, values_seen
from duetime.adopting.proposal import Line, Section


def assets_sections(shop: FoundShop, orders: FoundTable) -> Iterator[Section]:
    """Propose an ``[[assets]]`` for the stock, and one for each table of pieces."""
    pieces = pieces_tables(shop, orders)
    lines_of = _lines_tables(shop, orders, pieces)
    stock = _stock_table(shop, orders, [*pieces, *lines_of], lines_of)
    if stock is not None:
        yield Section("assets", tuple(_counter(shop, orders, stock, lines_of)), many=True)
    for table in pieces:
        yield Section("assets", tuple(_instance(shop, orders, table)), many=True)


def pieces_tables(shop: FoundShop, orders: FoundTable) -> list[FoundTable]:
    """Answer the tables that have a row and a state for each piece: coupons, seats."""
    named = [table for table in shop.tables if table is not orders and len(table.primary_key) == 1]
    named = [table for table in named if words.PIECES.search(words.spelled(table.name.name) + table.comment)]
    return [table for table in named if status_columns(table) and not _quantity(table)]


def _lines_tables(shop: FoundShop, orders: FoundTable, pieces: list[FoundTable]) -> list[FoundTable]:
    others = [table for table in shop.tables if table is not orders and table not in pieces]
    return [table for table in others if _to_order(orders, table) and _quantity(table)]


def _quantity(table: FoundTable) -> list[FoundColumn]:
    free = [column for column in table.of_kind("integer") if column.name not in _pointing(table)]
    return words.best([column for column in free if not words.says(column, words.AVAILABLE)], words.QUANTITY)


def _pointing(table: FoundTable) -> set[str]:
    own = set(table.primary_key) if len(table.primary_key) == 1 else set()
    return own | {name for key in table.foreign_keys for name in key.columns}


def _to_order(orders: FoundTable, table: FoundTable) -> tuple[str, str] | None:
    """Answer the key of ``from`` and the column by which a row names its order; None where there is none."""
    numbers = [columns[0] for columns in orders.unique if len(columns) == 1]
    keys: list[FoundKey] = [key for key in table.foreign_keys if key.table == orders.name and len(key.columns) == 1]
    for number in numbers:
        same = [column.name for column in table.columns if column.name == number and words.ORDER_NO.search(number)]
        pointing = [key.columns[0] for key in keys if key.target == (number,)]
        if pointing or same:
            return "order_no", (pointing or same)[0]
    by_id = [key.columns[0] for key in keys if key.target == orders.primary_key]
    if by_id:
        return "order_id", by_id[0]
    name = words.spelled(orders.name.name).removeprefix("t_").rstrip("s")
    likely = [column.name for column in table.columns if words.spelled(column.name) in {f"{name}_id", "order_id"}]
    return ("order_id", likely[0]) if likely else None


def _tells(table: FoundTable, way: tuple[str, str]) -> bool:
    """Say whether rows can name their order in this way: by a primary key only where that can be ``orders.id``."""
    column = table.column(way[1])
    return column.names if way[0] == "order_no" else column.identifies


def _available(table: FoundTable) -> list[FoundColumn]:
    free = [column for column in table.of_kind("integer") if column.name not in _keyed(table)]
    free = [column for column in free if not words.says(column, words.HELD)]
    plain = [column for column in free if not words.NOT_AVAILABLE.search(words.spelled(column.name))]
    return words.best(plain, words.AVAILABLE)


def _keyed(table: FoundTable) -> set[str]:
    return {*table.primary_key, *(name for key in table.foreign_keys for name in key.columns)}


def _stock_table(
    shop: FoundShop, orders: FoundTable, not_these: list[FoundTable], lines_of: list[FoundTable]
) -> FoundTable | None:
    pointed = {key.table for table in lines_of for key in table.foreign_keys}
    best: tuple[int, FoundTable | None] = (0, None)
    for table in shop.tables:
        if table is orders or table in not_these or not table.primary_key or not _available(table):
            continue
        named = bool(words.STOCK_TABLE.search(words.spelled(table.name.name) + table.comment))
        held = bool(words.best(table.of_kind("integer"), words.HELD))
        score = 1 + 2 * named + 2 * held + 2 * (table.name in pointed)
        best = max(best, (score, table), key=lambda pair: pair[0])
    return best[1]


def _counter(shop: FoundShop, orders: FoundTable, stock: FoundTable, lines_of: list[FoundTable]) -> Iterator[Line]:
    lines = next((table for table in lines_of if _refs_to(table, stock)), None)
    yield _kind("stock", told_by_lines=lines is not None)
    yield Line("storage", "counter", "a row counts units")
    named = bool(words.STOCK_TABLE.search(words.spelled(stock.name.name) + stock.comment))
    pointed = any(key.table == stock.name for table in lines_of for key in table.foreign_keys)
    yield Line("table", stock.written, "counts what can be sold", sure=named or pointed)
    yield _key(stock)
    available = _available(stock)
    names = ", ".join(column.name for column in available)
    yield Line("available", available[0].name, f"named like what can be sold: {names}", sure=len(available) == 1)
    yield _held(stock, available[0])
    if lines is not None:
        yield _from_lines(orders, lines, stock)
    del shop


def _kind(kind: str, *, told_by_lines: bool) -> Line:
    if told_by_lines:
        return Line("kind", kind, "any name: it is how duetime calls these holds")
    why = "nothing here tells which order holds what: name the kind under which your program writes duetime_hold"
    return Line("kind", kind, why, sure=False)


def _key(table: FoundTable) -> Line:
    key = table.primary_key
    unfit = [name for name in key if not table.column(name).names]
    if unfit:
        why = f"the primary key has {', '.join(unfit)}, which is no number, text or UUID: name other columns"
        return Line("key", "", why, sure=False)
    return Line("key", key[0] if len(key) == 1 else list(key), "the primary key")


def _held(stock: FoundTable, available: FoundColumn) -> Line:
    keys = {*_keyed(stock), *(columns[0] for columns in stock.unique if len(columns) == 1)}
    others = [column for column in stock.of_kind("integer") if column.name not in {*keys, available.name}]
    found = words.best(others, words.HELD)
    if found:
        return Line("held", found[0].name, "named like what is held", sure=len(found) == 1)
    plain = [column for column in others if not words.NOT_AVAILABLE.search(words.spelled(column.name))]
    if plain:
        names = ", ".join(column.name for column in plain)
        return Line("held", "", f"which column counts what unpaid orders hold, if any? there are {names}", sure=False)
    return Line("held", "", "no such column")


def _refs_to(lines: FoundTable, stock: FoundTable) -> list[str]:
    """Answer the columns by which a line names its row of the stock, in the order of that row's key; none, or all."""
    key = tuple(stock.primary_key)
    for declared in lines.foreign_keys:
        if declared.table == stock.name and declared.target is not None and set(declared.target) == set(key):
            theirs = dict(zip(declared.target, declared.columns, strict=True))
            return [theirs[name] for name in key]
    alone = f"{words.spelled(stock.name.name).removeprefix('t_').rstrip('s')}_id"
    wanted = [alone if len(key) == 1 and words.spelled(name) == "id" else words.spelled(name) for name in key]
    spelled = {words.spelled(column.name): column.name for column in lines.columns}
    return [spelled[name] for name in wanted] if all(name in spelled for name in wanted) else []


def _from_lines(orders: FoundTable, lines: FoundTable, stock: FoundTable) -> Line:
    way = _to_order(orders, lines)
    refs = _refs_to(lines, stock)
    assert way is not None
    quantity = _quantity(lines)
    sure = len(quantity) == 1 and (way[0] == "order_no" or lines.key_of(way[1]) is not None)
    sure = sure and _tells(lines, way) and all(lines.column(ref).names for ref in refs)
    sure = sure and (len(refs) == 1 or any(set(refs) == set(key.columns) for key in lines.foreign_keys))
    value = {"table": lines.written, way[0]: way[1], "ref": refs[0] if len(refs) == 1 else refs}
    value["quantity"] = quantity[0].name
    return Line("from", value, "the order lines; delete this where your program writes duetime_hold", sure=sure)


def _instance(shop: FoundShop, orders: FoundTable, table: FoundTable) -> Iterator[Line]:
    way = _to_order(orders, table)
    state = status_columns(table)[0]
    labels = labels_of(shop, table, state)
    name = words.PIECES.search(words.spelled(table.name.name))
    yield _kind(name.group().strip("_") if name else "piece", told_by_lines=way is not None)
    yield Line("storage", "instance", "a row is a piece")
    yield Line("table", table.written, "has a state for each piece")
    yield _key(table)
    yield Line(
        "state", state.name, f"values {shop.sample(table).how}:\n{values_seen(shop.sample(table), state, labels)}"
    )
    yield _value("held_value", labels, "held", "held by an unpaid order")
    yield _value("free_value", labels, "free", "free to be used")
    until = words.best(time_columns(table), words.VALID_UNTIL)
    if until:
        yield _value("expired_value", labels, "expired", "its own validity is over")
        yield Line("valid_until", until[0].name, "named like an end of validity", sure=len(until) == 1)
    yield _value("used_value", labels, "used", "used up by a paid order")
    if way is not None:
        value = {"table": table.written, way[0]: way[1], "ref": table.primary_key[0]}
        sure = _tells(table, way) and table.column(table.primary_key[0]).names
        yield Line("from", value, "the piece names its order", sure=sure)


def _value(key: str, labels: dict[str | int, str], meaning: words.Meaning, what: str) -> Line:
    values, certain = words.meant(labels, meaning)
    guess = values[0] if values else ""
    return Line(key, guess, f"{what}" + ("" if values else ": no value says so"), sure=certain and len(values) == 1)
