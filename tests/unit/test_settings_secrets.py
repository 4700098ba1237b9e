import traceback
from pathlib import Path
from typing import Any

import pytest

from duetime.errors import ConfigError
from duetime.settings import store_url
from tests.support.config import load, only_problem, write


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


PASSWORD = "hunter2"


@pytest.mark.parametrize(
    "sections",
    [
        {"store": {"url": f"postgresql://u:{PASSWORD}@h:port/db"}},
        {"store": {"url": f"postgresql://u:{PASSWORD}@h/"}},
        {"store": {"url": f"oracle://u:{PASSWORD}@h/db"}},
        {"store": {"url": f"u:{PASSWORD}@h/db"}},
        {"store": {"url": [f"postgresql://u:{PASSWORD}@h/db"]}},
        {"store": {"url": {"password": PASSWORD}}},
        {"store": {"ulr": f"postgresql://u:{PASSWORD}@h/db"}},
        {"store": f"postgresql://u:{PASSWORD}@h/db"},
        {"store": {"pool_size": f"postgresql://u:{PASSWORD}@h/db"}},
        {"sweep": {"interval": f"jdbc:postgresql://u:{PASSWORD}@h/db"}},
        {"api": {"token": PASSWORD}},
        {"api": {"token_file": [PASSWORD]}},
        {"api": {"token_file": PASSWORD + "\0"}},
        {"publishers": [{"type": "webhook", "url": f"ftp://u:{PASSWORD}@h/"}]},
        {"publishers": [{"type": "webhook", "secret_file": {"x": PASSWORD}}]},
        {"publishers": [{"type": "webhook", "secret": PASSWORD}]},
    ],
)
def test_no_error_repeats_a_secret(sections: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**sections)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_no_error_repeats_a_secret_of_the_environment() -> None:
    write(f"postgresql://u:{PASSWORD}@h/\n", "secret")
    for environ in (
        {"DUETIME_STORE__URL": f"postgresql://u:{PASSWORD}@h/"},
        {"DUETIME_STORE__URL_FILE": "secret"},
        {"DUETIME_STORE__URL_FILE": f"postgresql://u:{PASSWORD}@h/db"},
        {"DUETIME_PUBLISHERS": f'[{{"type": "webhook", "url": "{PASSWORD}"}}'},
    ):
        assert PASSWORD not in only_problem(environ)


def test_settings_hide_the_password_when_printed() -> None:
    settings = load(store={"url": f"postgresql://u:{PASSWORD}@h/db"})
    assert PASSWORD not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert PASSWORD not in f"{store_url(settings)!r} {store_url(settings)}"
    assert store_url(settings).password == PASSWORD
