import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.settings import NOT_YET, Settings, load_settings, store_url, unsupported
from duetime.shop import sample_assets
from tests.support.config import COUNTER, EVERY_KEY, load, only_problem, problems, write


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FOR_LATER = """
[orders]
expire_plus = "30m"
time_form = { expire_at = "Asia/Shanghai" }
states = { pending = 0, paid = 2, closed = 3, closing = 4 }

[[assets]]
kind = "stock"
storage = "counter"
table = "stock"
key = ["warehouse_id", "sku_id"]
available = "available"
from = { table = "t_order_item", order_no = "order_sn", ref = ["warehouse_id", "sku_id"], quantity = "num" }

[[assets]]
kind = "points"
storage = "remote"
publisher = "webhook"

[closing]
closes_per_second = 2000
foreign_close = "release"

[[reminders]]
before = "5m"
via = "redis-expiry"

[arming]
mode = "outbox"

[late_payments]
policy = "refund"

[[publishers]]
type = "webhook"
url = "http://127.0.0.1:9000/hooks"
secret_file = "/run/secrets/hook"
events = ["order.closed"]
"""


def test_defaults_written_out_are_the_defaults() -> None:
    assert load_settings(write(EVERY_KEY), environ={}) == load() == Settings()


def test_defaults_as_values() -> None:
    settings = load()
    assert str(store_url(settings)) == "sqlite+aiosqlite:///shop.db"
    assert (settings.store.pool_size, settings.store.schema_name) == (4, None)
    assert settings.assets == sample_assets()
    assert (settings.timeouts.default, settings.timeouts.grace) == (timedelta(minutes=30), timedelta(seconds=5))
    closing = settings.closing
    assert (closing.batch_size, closing.linger, closing.concurrency, closing.closes_per_second) == (
        500,
        timedelta(),
        2,
        None,
    )
    assert (closing.max_extension, closing.lease, closing.not_before) == (
        timedelta(hours=2),
        timedelta(seconds=10),
        None,
    )
    sweep = settings.sweep
    assert (sweep.interval, sweep.page_size, sweep.pause) == (timedelta(seconds=60), 500, timedelta(milliseconds=30))
    assert (sweep.shards, sweep.margin) == (8, "auto")
    assert (settings.triggers, settings.reminders, settings.publishers) == ((), (), ())
    assert (settings.retention.facts, settings.retention.sweep_runs) == (timedelta(days=90), timedelta(days=7))
    assert (settings.api.host, settings.api.port, settings.api.token_file) == ("127.0.0.1", 8321, None)
    assert settings.notices() == ()


def test_what_later_versions_serve_is_understood_and_refused_by_name() -> None:
    text = tomllib.loads(FOR_LATER)
    settings = Settings(**text)
    assert len(unsupported(settings)) == len(NOT_YET)
    found = problems(**text)
    assert len(found) == len(NOT_YET)
    assert settings.publishers[0].name == "webhook"
    assert settings.publishers[0].events == ("order.closed",)
    assert settings.orders.states.pending == (0,)


def test_assets_that_are_given_replace_the_sample() -> None:
    settings = load(assets=[COUNTER])
    assert [asset.kind for asset in settings.assets] == ["stock"]
    assert load(assets=[]).assets == ()


WRONG = [
    ("store", "url", 3, "text in quotes"),
    ("store", "url", "oracle://u@h/db", "allowed are postgresql://"),
    ("store", "pool_size", 0, "from 1 to 100"),
    ("store", "pool_size", "4", "from 1 to 100"),
    ("store", "schema", 3, "text in quotes"),
    ("orders", "table", "a.", "schema.table"),
    ("orders", "id", "", "empty"),
    ("orders", "order_no", "a\0", "NUL"),
    ("orders", "status", 1, "text in quotes"),
    ("orders", "expire_at", "x" * 129, "at most 128"),
    ("orders", "expire_plus", 30, "needs a unit"),
    ("orders", "time_form", "instnat", '"epoch_ms"'),
    ("orders", "only", 1, "text in quotes"),
    ("orders", "only", "a = 1) or (b = 2", "each opened before it is closed"),
    ("orders", "amount_form", "cents", '"minor" or "decimal"'),
    ("orders", "currency", "=", "=CNY"),
    ("orders", "states", "pending", "a table is allowed"),
    ("orders", "set", "version + 1", "a table is allowed"),
    ("timeouts", "default", 30, "needs a unit"),
    ("timeouts", "default", "0s", "or more"),
    ("timeouts", "grace", "-5s", "needs a unit"),
    ("timeouts", "grace", timedelta(seconds=-1), "never negative"),
    ("timeouts", "category", "5m", "a table is allowed"),
    ("closing", "mode", "obsreve", 'did you mean "observe"?'),
    ("closing", "not_before", "2026-01-01", "a zone"),
    ("closing", "not_before", "2026-01-01T00:00:00", "a zone"),
    ("closing", "batch_size", 5001, "from 1 to 5000"),
    ("closing", "batch_size", 1.5, "from 1 to 5000"),
    ("closing", "batch_size", True, "from 1 to 5000"),
    ("closing", "linger", 0, "needs a unit"),
    ("closing", "concurrency", 0, "from 1"),
    ("closing", "closes_per_second", 0, '"unlimited"'),
    ("closing", "closes_per_second", True, '"unlimited"'),
    ("closing", "quarantine_after_failures", 0, "from 1"),
    ("closing", "max_extension", "2 hours", "needs a unit"),
    ("closing", "lease", "500ms", '"1s" or more'),
    ("closing", "foreign_close", "", '"report"'),
    ("sweep", "interval", "49ms", '"50ms" or more'),
    ("sweep", "page_size", 0, "from 1 to 5000"),
    ("sweep", "pause", "30", "needs a unit"),
    ("sweep", "shards", 1025, "from 1 to 1024"),
    ("sweep", "margin", "automatic", '"auto" is allowed too'),
    ("arming", "mode", "none", '"outbox"'),
    ("late_payments", "policy", 3, '"manual"'),
    ("relay", "give_up_after_attempts", -1, "from 1"),
    ("relay", "per_second", "fast", '"unlimited"'),
    ("retention", "facts", 90, '"forever" is allowed too'),
    ("retention", "holds", "never", '"forever" is allowed too'),
    ("retention", "sweep_runs", "7 d", '"forever" is allowed too'),
    ("api", "host", "", "empty"),
    ("api", "port", 65536, "65535"),
    ("api", "token_file", 3, "text in quotes"),
]


@pytest.mark.parametrize("section, key, value, allowed", WRONG)
def test_wrong_value_is_refused_by_its_path(section: str, key: str, value: object, allowed: str) -> None:
    problem = only_problem(**{section: {key: value}})
    assert problem.startswith(f"{section}.{key}: found ")
    assert allowed in problem


@pytest.mark.parametrize(
    "section, entry, path",
    [
        ("assets", {"kind": "x", "storage": "countr"}, "assets[0].storage"),
        ("assets", {"storage": "remote"}, "assets[0].kind"),
        ("assets", {**COUNTER, "from": "lines"}, "assets[0].from"),
        ("assets", {**COUNTER, "from": {"table": "t", "order_no": "n"}}, "assets[0].from.ref"),
        ("assets", {**COUNTER, "from": {"table": "t", "ref": "n"}}, "assets[0].from"),
        (
            "assets",
            {**COUNTER, "key": ["a", "b"], "from": {"table": "t", "order_no": "n", "ref": "n"}},
            "assets[0].from.ref",
        ),
        ("assets", {**COUNTER, "from": {"table": "t", "order_no": "n", "ref": ["a", "b"]}}, "assets[0].from.ref"),
        ("assets", {**COUNTER, "key": 3}, "assets[0].key"),
        ("triggers", {}, "triggers[0].type"),
        ("triggers", {"type": "cron"}, "triggers[0].type"),
        ("triggers", {"type": "database", "ahead": 2}, "triggers[0].ahead"),
        ("triggers", {"type": "database", "name": ""}, "triggers[0].name"),
        ("reminders", {"before": "0s"}, "reminders[0].before"),
        ("reminders", {"before": "5m", "via": "mail"}, "reminders[0].via"),
        ("publishers", {"type": "mail"}, "publishers[0].type"),
        ("publishers", {"type": "webhook", "url": "ftp://x"}, "publishers[0].url"),
        ("publishers", {"type": "webhook", "events": ["order.lost"]}, "publishers[0].events[0]"),
        ("publishers", {"type": "webhook", "events": "order.paid"}, "publishers[0].events"),
    ],
)
def test_wrong_value_in_a_list_is_refused_by_its_place(section: str, entry: dict[str, Any], path: str) -> None:
    assert only_problem(**{section: [entry]}).startswith(f"{path}: ")


@pytest.mark.parametrize("section", sorted(Settings.model_fields))
@pytest.mark.parametrize("value", ["text", 3, True])
def test_section_that_is_no_table_is_refused(section: str, value: object) -> None:
    problem = only_problem(**{section: value})
    assert problem.startswith(f"{section}: found ")
    assert "allowed" in problem


def test_states_are_refused_by_their_path() -> None:
    states = {"pending": 0, "paid": True, "closed": 1}
    assert only_problem(orders={"states": states}).startswith("orders.states.paid: found true; ")
    assert only_problem(orders={"states": {"closed": "paid"}}).startswith('orders.states.closed: found "paid" again')


def test_every_problem_is_told_at_once() -> None:
    found = problems({"DUETIME_SWEEP__SHARDS": "0"}, closing={"batch_size": 0, "lease": 1}, store={"urk": "x"})
    assert sorted(problem.split(":")[0] for problem in found) == [
        "closing.batch_size",
        "closing.lease",
        "store.urk",
        "sweep.shards",
    ]


@pytest.mark.parametrize(
    "sections, hint",
    [
        ({"store": {"ulr": "x"}}, "store.ulr: no such key; did you mean url?"),
        ({"stroe": {}}, "stroe: no such key; did you mean store?"),
        ({"closing": {"interval": "5s"}}, "closing.interval: no such key; did you mean sweep.interval?"),
        ({"api": {"zzz": 1}}, "api.zzz: no such key; known here: host, port, token_file"),
        ({"assets": [{**COUNTER, "avialable": "n"}]}, "assets[0].avialable: no such key; did you mean available?"),
        ({"orders": {"states": {"payed": "p"}}}, "orders.states.payed: no such key; did you mean paid?"),
        ({"orders": {"a b": 1}}, 'orders."a b": no such key; known here: '),
    ],
)
def test_unknown_key_gets_the_nearest_known_one(sections: dict[str, Any], hint: str) -> None:
    assert only_problem(**sections).startswith(hint)


@pytest.mark.parametrize(
    "sections, path",
    [
        ({"closing": {"concurrency": 5}}, "closing.concurrency"),
        ({"assets": [COUNTER, COUNTER]}, "assets[1].kind"),
        ({"triggers": [{"type": "database"}, {"type": "wheel", "name": "database"}]}, "triggers[1].name"),
        ({"publishers": [{"type": "python"}, {"type": "python"}]}, "publishers[1].name"),
        ({"assets": [{"kind": "points", "storage": "remote", "publisher": "x"}]}, "assets[0].publisher"),
        (
            {
                "assets": [{"kind": "points", "storage": "remote"}],
                "publishers": [{"type": "python"}, {"type": "webhook"}],
            },
            "assets[0].publisher",
        ),
        ({"api": {"host": "0.0.0.0"}}, "api.token_file"),  # noqa: S104 -- nothing listens here
    ],
)
def test_values_that_cannot_stand_together(sections: dict[str, Any], path: str) -> None:
    assert only_problem(**sections).startswith(f"{path}: ")


def test_notices_tell_what_may_surprise() -> None:
    settings = load(triggers=[{"type": "database"}, {"type": "rocketmq"}], late_payments={"policy": "reopen-or-refund"})
    sweep, money = settings.notices()
    assert sweep.startswith('triggers[1]: "rocketmq" is not started')
    assert 'has the triggers "database" and "wheel", and its sweep every 1m' in sweep
    assert money.startswith("late_payments.policy: ")
    (watching,) = Settings.model_validate(
        {"closing": {"mode": "observe"}, "triggers": [{"type": "database"}]}
    ).notices()
    assert watching == 'triggers[0]: "database" is not started: closing.mode is "observe"'
    (early,) = Settings.model_validate({"reminders": [{"before": "30m"}]}).notices()
    assert early.startswith("reminders[0].before: ")


@pytest.mark.parametrize("timeouts", [{"default": "15m"}, {"category": {"seckill": "5m"}}])
def test_two_answers_to_how_long_an_order_may_stay_unpaid_are_refused(timeouts: dict[str, object]) -> None:
    plus = {"expire_plus": "45m"}
    assert load(orders=plus).default_timeout == load(orders=plus, timeouts={"default": "45m"}).default_timeout
    assert load(orders=plus).default_timeout == timedelta(minutes=45)
    assert "but orders.expire_plus says 45m for every order" in only_problem(orders=plus, timeouts=timeouts)
