import json
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from duetime.config.keys import EACH, variable
from duetime.errors import ConfigError
from duetime.settings import KNOWN, Settings, load_settings
from tests.support.config import COUNTER, EVERY_KEY, load, only_problem, write


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_environment_comes_before_secret_files_before_toml_before_defaults() -> None:
    file = write("[store]\npool_size = 5\n[sweep]\nshards = 2\npage_size = 7\n[api]\nport = 1\n")
    write("6\n", "six")
    environ = {
        "DUETIME_STORE__POOL_SIZE": "9",
        "DUETIME_STORE__POOL_SIZE_FILE": "six",
        "DUETIME_SWEEP__SHARDS_FILE": "six",
    }
    settings = load_settings(file, environ=environ, api={"port": 2})
    assert (settings.store.pool_size, settings.sweep.shards, settings.sweep.page_size) == (9, 6, 7)
    assert (settings.api.port, settings.api.host) == (2, "127.0.0.1")


def test_nothing_runs_while_a_line_is_still_marked() -> None:
    file = write('[orders]\n# a reason\n# FILL IN: table = "t_order"\nid = "id"\n  # FILL IN: order_no = "sn"\n')
    with pytest.raises(ConfigError) as refused:
        load_settings(file, environ={})
    (problem,) = refused.value.problems
    assert '2 lines are still marked "FILL IN:", the first at line 3' in problem
    assert "t_order" in problem
    assert "delete the line" in problem
    settled = write('[orders]\n# FILL IN was settled\ntable = "t_order"\n')
    assert load_settings(settled, environ={}).orders.table == "t_order"


EXAMPLES = {
    ("store", "url"): "postgresql://u:p@h/db",
    ("orders", "states", "paid"): "bezahlt",
    ("assets",): json.dumps([COUNTER]),
    ("triggers",): '[{"type": "database"}]',
    ("reminders",): '[{"before": "5m"}]',
    ("publishers",): '[{"type": "python"}]',
    ("closing", "not_before"): "2026-01-01T00:00:00Z",
    ("orders", "set"): '{"version": "version + 1"}',
    ("timeouts", "category"): '{"seckill": "5m"}',
}


LATER = {("reminders",), ("publishers",)}


@pytest.mark.parametrize(
    "path", [path for path, key in KNOWN.items() if EACH not in path and (key.many or not key.below)]
)
@pytest.mark.parametrize("by_file", [False, True])
def test_every_key_can_be_set_by_environment(path: tuple[str, ...], *, by_file: bool) -> None:
    key = KNOWN[path]
    text = EXAMPLES.get(path) or _default_as_text(path)
    environ = {variable(path): text}
    if by_file:
        write(f"{text}\n", "secret")
        environ = {variable(path) + "_FILE": "secret"}
    if key.path in LATER:
        assert "not supported by this version yet" in only_problem(environ)
    else:
        assert key.path[0] in load(environ).model_fields_set


def _default_as_text(path: tuple[str, ...]) -> str:
    value = tomllib.loads(EVERY_KEY)
    for part in path:
        value = value[part]
    return str(value)


def test_state_values_by_environment_stay_integers_or_text() -> None:
    environ = {
        "DUETIME_ORDERS__STATES__" + key: value for key, value in (("PENDING", "0"), ("PAID", "1"), ("CLOSED", "4"))
    }
    assert load(environ).orders.states.pending == (0,)
    quoted = load({name: f'"{value}"' for name, value in environ.items()}).orders.states
    assert (quoted.pending, quoted.closed) == (("0",), "4")
    assert load({"DUETIME_ORDERS__STATES__CLOSED": "true"}).orders.states.closed == "true"


def test_tables_of_ones_own_keys_by_environment() -> None:
    environ = {"DUETIME_TIMEOUTS__CATEGORY__SECKILL": "5m", "DUETIME_TIMEOUTS__CATEGORY": '{"Hot": "1m"}'}
    assert load(environ).timeouts.category == {"seckill": timedelta(minutes=5), "Hot": timedelta(minutes=1)}


def test_key_that_ends_in_file_is_not_taken_for_a_secret() -> None:
    assert load({"DUETIME_API__TOKEN_FILE": "/run/token"}).api.token_file == Path("/run/token")
    write("/run/other\n", "pointer")
    assert load({"DUETIME_API__TOKEN_FILE_FILE": "pointer"}).api.token_file == Path("/run/other")


@pytest.mark.parametrize(
    "name, hint",
    [
        ("DUETIME_STORE__ULR", "did you mean DUETIME_STORE__URL?"),
        ("DUETIME_SHOP__X", "no such key"),
        ("DUETIME_STORE__ULR_FILE", "no such key"),
        ("DUETIME_ASSETS__0__KIND", "JSON in DUETIME_ASSETS"),
        ("DUETIME_ORDERS__STATES", "no such key"),
        ("DUETIME_STORE__", "no such key"),
    ],
)
def test_unknown_variable_that_looks_like_a_key_is_refused(name: str, hint: str) -> None:
    problem = only_problem({name: "hunter2"})
    assert problem.startswith(f"{name}: ")
    assert hint in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "name", ["DUETIME_TEST_URL", "DUETIME_TEST__X", "DUETIME_SERVICES_DIR", "DUETIME_", "OTHER__X"]
)
def test_other_variables_are_none_of_our_business(name: str) -> None:
    assert load({name: "x"}) == Settings()


def test_variable_is_named_beside_the_key_it_set() -> None:
    assert only_problem({"DUETIME_SWEEP__SHARDS": "x"}).endswith("(set by DUETIME_SWEEP__SHARDS)")
    assert only_problem({"DUETIME_ASSETS": "[{}"}).startswith("assets: found text; a list of tables")


def test_config_file_is_found_by_argument_variable_or_place() -> None:
    write("[api]\nport = 1\n", "one.toml")
    write("[api]\nport = 2\n", "two.toml")
    assert load().api.port == 8321
    write("[api]\nport = 3\n", "duetime.toml")
    assert load().api.port == 3
    assert load({"DUETIME_CONFIG": "two.toml"}).api.port == 2
    assert load_settings(Path("one.toml"), environ={"DUETIME_CONFIG": "two.toml"}).api.port == 1


def test_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_API__PORT", "77")
    assert load_settings().api.port == 77


def test_missing_or_broken_file_is_refused() -> None:
    assert "cannot be read: No such file" in only_problem({"DUETIME_CONFIG": "nowhere.toml"})
    write('[store]\nurl = "x"\nurl = = 3\n', "duetime.toml")
    assert "line 3" in only_problem()
    Path("duetime.toml").write_bytes(b"[store]\n# \xff\n")
    assert only_problem().endswith("not valid UTF-8 (at line 2)")
    Path("duetime.toml").write_text("x = " + "[" * 10_000, encoding="utf-8")
    assert "too deep or too long" in only_problem()
    write("[api]\nport = " + "9" * 5000, "duetime.toml")
    assert "too deep or too long" in only_problem()
    write("[api]\nport = 0x" + "f" * 5000, "duetime.toml")
    assert only_problem().startswith("api.port: found a number beyond 64 bits; ")
    assert "no such place" in only_problem({"DUETIME_CONFIG": "~nobody-of-that-name/x.toml"})
    assert "cannot be read" in only_problem({"DUETIME_CONFIG": "."})


def test_order_of_keys_in_the_file_does_not_matter() -> None:
    first = write("[api]\nport = 1\n[sweep]\nshards = 2\npage_size = 3\n")
    second = write("[sweep]\npage_size = 3\nshards = 2\n[api]\nport = 1\n", "other.toml")
    assert load_settings(first, environ={}) == load_settings(second, environ={})


def test_secret_file_that_cannot_be_read_is_told_without_its_content() -> None:
    problem = only_problem({"DUETIME_STORE__URL_FILE": "/nowhere/x"})
    assert problem.startswith("store.url: DUETIME_STORE__URL_FILE names")
    Path("raw").write_bytes(b"\xff\xfe")
    assert "not a text file" in only_problem({"DUETIME_STORE__URL_FILE": "raw"})
