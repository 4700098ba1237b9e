"""Deadlines that plain SQL writes, in every form of time: read by duetime as they were meant, and told so in facts."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from duetime import Duetime
from duetime.settings import load_settings
from tests.acceptance.test_plain_sql import vars_of
from tests.docs.by_hand import prepare, run_sql
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.plain_sql import PlainSql, connected

SHANGHAI, NEW_YORK = "Asia/Shanghai", "America/New_York"
COLUMNS: dict[DatabaseKind, list[tuple[str, str]]] = {
    "postgresql": [
        ("timestamp", "instant"),
        ("timestamp", SHANGHAI),
        ("timestamp", NEW_YORK),
        ("bigint", "epoch_s"),
        ("bigint", "epoch_ms"),
    ],
    "mariadb": [
        ("datetime(6)", "instant"),
        ("datetime(6)", SHANGHAI),
        ("datetime(6)", NEW_YORK),
        ("timestamp(6) NULL", "instant"),
        ("bigint", "epoch_s"),
        ("bigint", "epoch_ms"),
    ],
    "sqlite": [("datetime", "instant"), ("datetime", SHANGHAI), ("integer", "epoch_s"), ("integer", "epoch_ms")],
}
NONE = dict.fromkeys(("close_reason", "close_source", "category", "amount", "currency"), "")
MINUTE, ROUNDED = timedelta(minutes=1), timedelta(seconds=2.1)


@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.services),
        pytest.param("mariadb", marks=pytest.mark.services),
    ],
)
async def test_each_form_of_time(kind: DatabaseKind, fresh_database: FreshDatabase, tmp_path: Path) -> None:
    url = fresh_database(kind)
    prepare(url)
    for n, (column, form) in enumerate(COLUMNS[kind]):
        serial = {"mariadb": "bigint AUTO_INCREMENT", "postgresql": "bigserial", "sqlite": "integer"}[kind]
        number, status = "order_no varchar(40) NOT NULL UNIQUE", "status varchar(10) NOT NULL"
        times = f"expire_at {column}, closed_at {column}"
        run_sql(url, f"CREATE TABLE t{n} (id {serial} PRIMARY KEY, {number}, {status}, {times})")
        orders = {"table": f"t{n}", "time_form": form, **NONE}
        settings = load_settings(None, environ={}, store={"url": url}, orders=orders, assets=[])
        async with Duetime(settings) as duetime:
            await _placed_and_cancelled(duetime, url, f"o-{n}", tmp_path)


async def _placed_and_cancelled(duetime: Duetime, url: str, no: str, folder: Path) -> None:
    path = folder / "recipes.json"
    recipes = {name: await duetime.wired.store.recipe(name) for name in ("place", "cancel")}
    path.write_text(json.dumps(recipes, default=vars_of))
    plain, zone = PlainSql.read(path, native=url.startswith("sqlite")), str(duetime.settings.orders.time_form)
    now = datetime.now(UTC)
    values: dict[str, object] = {"order_no": no, "timeout_seconds": 60, "reason": "staff", "source": "desk"}
    if zone in {SHANGHAI, NEW_YORK}:
        # What SQL cannot say everywhere, the program says: these are used only where the text asks for them.
        local = (now + MINUTE).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        told = f"{now + MINUTE:%Y-%m-%dT%H:%M:%S.%fZ}"
        closed = now.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        values |= {"expire_at": f"{local}", "expire_at_told": told, "closed_at": f"{closed}"}
    for name, work in (("place", plain.place), ("cancel", plain.cancel)):
        with closing(connected(url)) as connection:
            cursor = connection.cursor()
            cursor.execute(plain.opening(name))
            given = {**values, "event_id": str(uuid4())}
            used = {one: given[one] for one in plain.recipes[name]["parameters"]}
            work(cursor, used, []) if name == "place" else work(cursor, used)  # type: ignore[call-arg]  # by name
            cursor.execute("COMMIT")
    story = await duetime.story(no)
    assert story is not None
    placed, cancelled = story.facts
    expire_at, closed_at = story.order.expire_at, story.order.closed_at
    assert expire_at is not None
    assert closed_at is not None
    assert now + MINUTE - timedelta(milliseconds=1) <= expire_at <= datetime.now(UTC) + MINUTE + ROUNDED, zone
    for fact in (placed, cancelled):
        assert datetime.fromisoformat(str(fact.payload["expire_at"])) == expire_at, zone
    said = datetime.fromisoformat(str(cancelled.payload["closed_at"]))
    assert abs(closed_at - said) <= ROUNDED, zone
