"""An order table as a shop has it: made by plain SQL, described as its operator would, compared row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from duetime.errors import ConfigError
from tests.support.shop_database import Section, ShopDatabase

Row = Mapping[str, Any]
Changes = dict[Any, dict[str, tuple[Any, Any]]]

NONE: Mapping[str, str] = dict.fromkeys(
    ("closed_at", "close_reason", "close_source", "category", "amount", "currency"), ""
)
"""The shop has no such columns."""

BARE: Mapping[str, object] = {
    "table": "t_order", "id": "id", "order_no": "sn", "status": "state", "expire_at": "pay_by",
    "states": {"pending": 0, "paid": 1, "closed": 4}, **NONE,
}  # fmt: skip


@dataclass
class FoundOrders:
    """One order table and how ``[orders]`` describes it, where that differs from ``BARE``."""

    shop: ShopDatabase
    columns: Sequence[str]
    described: Mapping[str, object] = field(default_factory=dict)
    suffix: str = ""
    name: str = "t_order"

    @property
    def sections(self) -> dict[str, Section]:
        return {"orders": {**BARE, **self.described}, "assets": []}

    async def create(self) -> None:
        """Make the table, then what ``duetime migrate`` makes."""
        columns = [column.replace("INSTANT", self.shop.words.instant_type) for column in self.columns]
        await self.shop.execute(f"CREATE TABLE {self.name} ({', '.join(columns)}) {self.suffix}")
        await self.shop.migrator(**self.sections).run()

    async def add(self, *rows: Row) -> None:
        """Insert rows; "due" and "later" stand for a deadline on either side of now."""
        async with self.shop.engine.begin() as connection:
            for row in rows:
                values = {name: self.shop.bound(_instant(value)) for name, value in row.items()}
                names = ", ".join(self.shop.quote(name) for name in values)
                places = ", ".join(f":p{n}" for n in range(len(values)))
                given = {f"p{n}": value for n, value in enumerate(values.values())}
                await connection.execute(text(f"INSERT INTO {self.name} ({names}) VALUES ({places})"), given)

    async def rows(self, key: str = "id") -> dict[Any, Row]:
        """Read everything, by primary key."""
        async with self.shop.engine.connect() as connection:
            found = (await connection.execute(text(f"SELECT * FROM {self.name}"))).mappings().all()
        return {row[key]: dict(row) for row in found}

    async def sweep(self) -> Changes:
        """Close what is due; answer what that changed in the table, and nothing else is forgiven."""
        before = await self.rows()
        async with self.shop.duetime(**self.sections) as duetime:
            await duetime.check()
            await duetime.wired.sweep.run_once()
        return changes(before, await self.rows())

    async def problems(self) -> tuple[str, ...]:
        """What the check at start says."""
        try:
            async with self.shop.duetime(**self.sections) as duetime:
                await duetime.check()
        except ConfigError as error:
            return error.problems
        return ()


def changes(before: Mapping[Any, Row], after: Mapping[Any, Row]) -> Changes:
    """Answer each value that is not what it was, and fail when a row came or went."""
    assert before.keys() == after.keys()
    found = {
        key: {name: (before[key][name], row[name]) for name in row if row[name] != before[key][name]}
        for key, row in after.items()
    }
    return {key: one for key, one in found.items() if one}


def _instant(value: object) -> object:
    now = datetime.now(UTC).replace(microsecond=0)
    ages = {"due": -60, "older": -120, "later": 3600}
    return now + timedelta(seconds=ages[value]) if isinstance(value, str) and value in ages else value
