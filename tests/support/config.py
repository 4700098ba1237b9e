"""Loading settings in a test: nothing comes from the environment of the test run itself."""

from pathlib import Path
from typing import Any

import pytest

from duetime.errors import ConfigError
from duetime.settings import Settings, load_settings

EVERY_KEY = """
[store]
url = "sqlite:///shop.db"
pool_size = 4
schema = ""

[orders]
table = "orders"
id = "id"
order_no = "order_no"
status = "status"
expire_at = "expire_at"
expire_plus = ""
time_form = "instant"
only = ""
closed_at = "closed_at"
close_reason = "close_reason"
close_source = "close_source"
paid_at = ""
category = "category"
amount = "amount_minor"
amount_form = "minor"
currency = "currency"
states = { pending = "pending", paid = "paid", closed = "closed", closing = "", after_paid = [] }

[orders.set]

[[assets]]
kind = "stock"
storage = "counter"
table = "stock"
key = "sku_id"
available = "available"
held = "held"
release = "with"

[[assets]]
kind = "coupon"
storage = "instance"
table = "coupon"
key = "coupon_id"
state = "state"
held_value = "locked"
free_value = "unused"
expired_value = "expired"
used_value = "used"
valid_until = "valid_until"

[timeouts]
default = "30m"
grace = "5s"
category = {}

[closing]
mode = "close"
not_before = ""
observe_ahead = "5m"
batch_size = 500
linger = "0ms"
concurrency = 2
closes_per_second = "unlimited"
quarantine_after_failures = 5
max_extension = "2h"
lease = "10s"
foreign_close = "report"

[sweep]
interval = "60s"
page_size = 500
pause = "30ms"
shards = 8
margin = "auto"

[arming]
mode = "auto"

[late_payments]
policy = "reopen-or-refund"

[relay]
give_up_after_attempts = 12
per_second = "unlimited"

[retention]
facts = "90d"
holds = "90d"
sweep_runs = "7d"
observed = "30d"

[api]
host = "127.0.0.1"
port = 8321
token_file = ""
"""

COUNTER = {"kind": "stock", "storage": "counter", "table": "sku", "key": "id", "available": "n"}


def load(environ: dict[str, str] | None = None, /, **sections: Any) -> Settings:  # noqa: ANN401 -- sections as TOML has them
    return load_settings(environ=environ or {}, **sections)


def problems(environ: dict[str, str] | None = None, /, **sections: Any) -> tuple[str, ...]:  # noqa: ANN401 -- as above
    with pytest.raises(ConfigError) as caught:
        load(environ, **sections)
    assert all(problem and "\n" not in problem for problem in caught.value.problems)
    return caught.value.problems


def only_problem(environ: dict[str, str] | None = None, /, **sections: Any) -> str:  # noqa: ANN401 -- as above
    (problem,) = problems(environ, **sections)
    return problem


def write(text: str, name: str = "shop.toml") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path
