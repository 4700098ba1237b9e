"""A database that is well until a test breaks one thing of it, and what the doctor says about it."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from duetime import Duetime
from duetime.clock import SystemClock
from duetime.config.database_url import async_url
from duetime.doctor import Grade, Line, examine
from duetime.settings import Settings, load_settings
from duetime.shop import Asset
from duetime.wiring import doctor_checks, migrator
from tests.support.databases import fresh_name
from tests.support.servers import DatabaseServer, run_apart

ORDER = "INSERT INTO orders (order_no, status, expire_at) VALUES ('%s', '%s', %s)"
HEALTHY = (
    *(ORDER % (f"so-{n}", "pending", ":half_hour_ahead") for n in range(5)),
    ORDER % ("so-5", "paid", ":half_hour_ahead"),
    "INSERT INTO stock (sku_id, available, held) VALUES ('sku-1', 10, 5)",
    *(
        f"INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES ('so-{n}', 'stock', 'sku-1', 1)"
        for n in range(5)
    ),
    (
        "INSERT INTO duetime_sweep_run (shard, worker, started_at, finished_at, due_found, closed) "
        "VALUES (0, 'w', :now, :now, 0, 0)"
    ),
)
TABLES = ("orders", "stock", "coupon", "duetime_hold", "duetime_outbox", "duetime_quarantine", "duetime_sweep_run")

KINDS = ["sqlite", *(pytest.param(kind, marks=pytest.mark.services) for kind in ("postgresql", "mariadb"))]
INDEX = "duetime_due_orders"


@dataclass
class Patient:
    """A database that is well until somebody breaks it."""

    kind: str
    url: str
    only: str | None = None
    not_before: datetime | None = None
    time_form: str | dict[str, str] = "instant"
    from_lines: dict[str, str] | None = None
    """Where the holds of a further kind are read from."""

    def settings(self) -> Settings:
        settings = load_settings(environ={}, store={"url": self.url}, timeouts={"grace": "0s"})
        changed: dict[str, object] = {
            "orders": settings.orders.model_copy(update={"only": self.only, "time_form": self.time_form})
        }
        changed["closing"] = settings.closing.model_copy(update={"not_before": self.not_before})
        if self.from_lines is not None:
            item = {"kind": "item", "storage": "counter", "table": "stock", "key": "sku_id", "available": "available"}
            changed["assets"] = (*settings.assets, Asset.model_validate({**item, "held": "", "from": self.from_lines}))
        return settings.model_copy(update=changed)

    async def treat(self, statements: Sequence[str]) -> None:
        """Run statements, each committed by itself."""
        engine = create_async_engine(async_url(self.url), isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            for statement in statements:
                if statement == "migrate":
                    await migrator(self.settings()).run()
                else:
                    written = statement.format(database=engine.url.database) if "{database}" in statement else statement
                    await connection.execute(text(written), self._instants(engine, written))
        await engine.dispose()

    @staticmethod
    def _instants(engine: AsyncEngine, statement: str) -> dict[str, object]:
        now, hour = datetime.now(UTC), timedelta(hours=1)
        instants = {
            "now": now,
            "hour_ago": now - hour,
            "ten_days_ago": now - 240 * hour,
            "eight_hours_ago": now - 8 * hour,
            "half_hour_ahead": now + hour / 2,
            "eight_hours_ahead": now + 8 * hour + timedelta(seconds=20),
        }
        text_of = engine.dialect.name != "postgresql"
        return {
            name: at.strftime("%Y-%m-%d %H:%M:%S.%f") if text_of else at
            for name, at in instants.items()
            if f":{name}" in statement
        }

    async def recover(self) -> None:
        self.only = self.from_lines = self.not_before = None
        self.time_form = "instant"
        await self.treat([f"DELETE FROM {table}" for table in TABLES])
        await self.treat(HEALTHY)

    async def lines(self, *, ahead: timedelta = timedelta(0)) -> list[Line]:
        async with _opened(Duetime(self.settings())) as duetime:
            return await examine(doctor_checks(duetime.wired, clock=_Shifted(ahead)))


@asynccontextmanager
async def _opened(duetime: Duetime) -> AsyncIterator[Duetime]:
    try:
        yield duetime
    finally:
        await duetime.aclose()


class _Shifted(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


@pytest.fixture(scope="module")
def patients(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Patient]]:
    """A function from a kind to the one database of it that these tests use in turn."""
    made: dict[str, Patient] = {}
    servers: list[tuple[DatabaseServer, str]] = []

    def patient(kind: str) -> Patient:
        if kind not in made:
            made[kind] = Patient(kind, url(kind))
            run_apart(migrator(made[kind].settings()).run(sample_shop=True))
        run_apart(made[kind].recover())
        return made[kind]

    def url(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('doctor')}/shop.db"
        server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
        servers.append((server, fresh_name()))
        return server.create(servers[-1][1])

    yield patient
    for server, name in servers:
        server.drop(name)


def not_well(lines: Sequence[Line]) -> list[Line]:
    """Answer the lines that ask for somebody."""
    return [line for line in lines if line.grade in {Grade.WARNING, Grade.FAILED}]
