"""`duetime verify` and `duetime doctor` on tables that hold time in other forms than instants."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from duetime import Duetime
from duetime.doctor import Grade, examine
from duetime.settings import load_settings
from duetime.wiring import doctor_checks, migrator, verifying
from tests.docs.by_hand import run_sql
from tests.support.databases import DatabaseKind, FreshDatabase
from tests.support.shop_database import Section

SHANGHAI = ZoneInfo("Asia/Shanghai")


@dataclass(frozen=True)
class Form:
    """How a table holds its deadline, and how the shop writes one."""

    column: str
    config: dict[str, object]
    written: Callable[[datetime], str]


FORMS = {
    "epoch_ms": Form("bigint", {"time_form": "epoch_ms"}, lambda at: str(int(at.timestamp() * 1000))),
    "local": Form(
        "{naive}",
        {"time_form": "Asia/Shanghai"},
        lambda at: at.astimezone(SHANGHAI).strftime("'%Y-%m-%d %H:%M:%S'"),
    ),
    "plus": Form(
        "bigint",
        {"time_form": "epoch_s", "expire_plus": "30m"},
        lambda at: str(int((at - timedelta(minutes=30)).timestamp())),
    ),
}
NAIVE = {"sqlite": "datetime", "postgresql": "timestamp", "mariadb": "datetime"}
NONE = dict.fromkeys(("closed_at", "close_reason", "close_source", "category", "amount", "currency"), "")


def described(form: Form) -> Section:
    states = {"pending": 0, "paid": 1, "closed": 2}
    names = {"table": "t_order", "order_no": "sn", "status": "state", "expire_at": "at_"}
    return {**names, "states": states, **NONE, **form.config}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind", ["sqlite", *(pytest.param(kind, marks=pytest.mark.services) for kind in ("postgresql", "mariadb"))]
)
async def test_both_read_time_as_the_table_holds_it(
    kind: DatabaseKind, form: str, fresh_database: FreshDatabase
) -> None:
    one, url, hour = FORMS[form], fresh_database(kind), timedelta(hours=1)
    run_sql(
        url,
        "CREATE TABLE t_order (id integer PRIMARY KEY, sn varchar(40) NOT NULL UNIQUE, state integer NOT NULL, "
        f"at_ {one.column.format(naive=NAIVE[kind])} NOT NULL)",
    )
    now = datetime.now(UTC)
    for n in range(30):
        at = one.written(now - hour if n < 10 else now + timedelta(minutes=10))
        run_sql(url, f"INSERT INTO t_order (id, sn, state, at_) VALUES ({n}, 'so-{n}', 0, {at})")
    settings = load_settings(
        environ={}, store={"url": url}, orders=described(one), assets=[], timeouts={"grace": "0s"}
    )  # fmt: skip
    await migrator(settings).run()
    async with Duetime(settings) as duetime:
        assert (await duetime.wired.sweep.run_once()).closed == 10
        verdict = await verifying(duetime.wired, patience=timedelta(0)).run()
        assert [finding.sentence for finding in verdict.findings] == []
        assert (verdict.checked["orders"], verdict.checked["facts"]) == (30, 10)
        lines = await examine(doctor_checks(duetime.wired))
        assert [(line.check, line.found) for line in lines if line.grade is not Grade.OK] == []

        moved = one.written(now + hour)
        run_sql(url, f"UPDATE t_order SET at_ = {moved} WHERE sn = 'so-3'")
        (early,) = (await verifying(duetime.wired, patience=timedelta(0)).run()).findings
        assert (early.kind, early.order_no) == ("closed-early", "so-3")
