import pytest

from duetime.config import database_url
from duetime.config.database_url import async_url, check_driver
from duetime.errors import ConfigError


@pytest.mark.parametrize(
    "text, drivername",
    [
        ("postgresql://u:p@h:1/db", "postgresql+psycopg"),
        ("postgres://u:p@h/db?sslmode=require", "postgresql+psycopg"),
        ("postgresql+psycopg2://h/db", "postgresql+psycopg"),
        ("postgresql:///db", "postgresql+psycopg"),
        ("mysql://u:p@h/db", "mysql+asyncmy"),
        ("mysql+pymysql://u:p@h/db?charset=utf8mb4", "mysql+asyncmy"),
        ("mariadb://u:p@h/db", "mysql+asyncmy"),
        ("sqlite:///shop.db", "sqlite+aiosqlite"),
        ("sqlite+aiosqlite:////srv/shop.db", "sqlite+aiosqlite"),
    ],
)
def test_driver_is_chosen(text: str, drivername: str) -> None:
    assert async_url(text).drivername == drivername


def test_url_keeps_its_parts() -> None:
    url = async_url("postgres://u:a%40b@h:5433/db?sslmode=require")
    assert (url.username, url.password, url.host, url.port, url.database) == ("u", "a@b", "h", 5433, "db")
    assert url.query == {"sslmode": "require"}


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("redis://h/0", "allowed are"),
        ("shop.db", "a URL is needed"),
        ("", "a URL is needed"),
        ("postgresql+odbc://h/db", "driver is not known"),
        ("postgresql://u:p@h", "database's name is missing"),
        ("mysql://u:p@h/", "database's name is missing"),
        ("sqlite://", "database's name is missing"),
        ("sqlite:///:memory:", "a file is needed"),
        ("sqlite://shop.db", "a file is needed"),
        ("postgresql://u:p@h:x/db", "%40"),
    ],
)
def test_url_that_cannot_serve_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        async_url(text)


@pytest.mark.parametrize(
    "text, install",
    [("postgresql://h/db", "duetime[postgresql]"), ("mariadb://h/db", "duetime[mysql]"), ("sqlite:///x", "aiosqlite")],
)
def test_missing_driver_names_what_to_install(monkeypatch: pytest.MonkeyPatch, text: str, install: str) -> None:
    url = async_url(text)
    monkeypatch.setattr(database_url, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError) as caught:
        check_driver(url)
    assert f"pip install '{install}'" in str(caught.value)


def test_installed_driver_is_accepted() -> None:
    check_driver(async_url("sqlite:///x"))
