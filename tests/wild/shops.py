"""The schemas of this folder: what each file is made of, and a database that has one of them.

A schema is one SQL file for each kind of database and a ``duetime.toml`` (without its ``[store]``), shared by both
unless there is one for each: ``01_mall.mariadb.sql``, ``01_mall.postgresql.sql``, ``01_mall.toml``. The SQL file starts
with its story and has three parts, each headed by a line of its own:

    -- [tables]     the shop as it was found, with what it had in it
    -- [rows]       the orders of the day; where the shop writes ``duetime_hold``, it does so here
    -- [expected]   what a closer must change, in the shop's own words; run in a transaction that is taken back
    -- now: table.column, …   columns that take the time of the close: they may differ by a minute from what is expected
    -- zone: +09:00           the zone that the shop's server was set to
    -- backlog: …             orders are so old that a first run asks before it closes them
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from tests.support.databases import DatabaseKind
from tests.wild.hands import MariaDBHand, PostgreSQLHand, ShopHand

FOLDER: Final = Path(__file__).parent
HANDS: Final[dict[str, type[ShopHand]]] = {"postgresql": PostgreSQLHand, "mariadb": MariaDBHand}
GRACE: Final = "60s"
"""The hidden time of every shop here: some orders are past their deadline and not yet past the grace."""

_PARTS: Final = re.compile(r"^-- \[(tables|rows|expected)\]$", re.MULTILINE)


@dataclass(frozen=True)
class WildShop:
    """One schema on one kind of database."""

    name: str
    kind: DatabaseKind

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.{self.kind}.sql"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def part(self, wanted: str) -> str:
        """Answer one part of the file."""
        pieces = _PARTS.split(self.text)
        return dict(zip(pieces[1::2], pieces[2::2], strict=True))[wanted]

    def note(self, name: str) -> str:
        """Answer what a note of the file says; nothing where there is no such note."""
        found = re.search(rf"^-- {name}: (.+)$", self.text, re.MULTILINE)
        return found[1].strip() if found else ""

    @property
    def now_columns(self) -> frozenset[tuple[str, str]]:
        """Tables with the columns that take the time of the close."""
        named = (one.strip().rpartition(".") for one in self.note("now").split(",") if one.strip())
        return frozenset((table, column) for table, _, column in named)

    def description(self, url: str) -> str:
        """Answer the shop's part of ``duetime.toml``."""
        own = FOLDER / f"{self.name}.{self.kind}.toml"
        path = own if own.exists() else FOLDER / f"{self.name}.toml"
        return path.read_text(encoding="utf-8").replace("@database", urlsplit(url).path[1:])

    def config(self, url: str) -> str:
        """Answer a whole ``duetime.toml`` but for the store, which the environment names."""
        return f'{self.description(url)}\n[timeouts]\ngrace = "{GRACE}"\n'

    def zoned(self, url: str) -> str:
        """Answer the URL with which every session has the zone of the shop's server."""
        zone = self.note("zone")
        return f"{url}?{HANDS[self.kind].zone_option(quote(zone))}" if zone else url

    @contextmanager
    def hand(self, url: str) -> Iterator[ShopHand]:
        """Give the shop's own hand on a database."""
        hand = HANDS[self.kind](url, self.note("zone"))
        try:
            yield hand
        finally:
            hand.close()


def wild_shops() -> list[WildShop]:
    """Answer every schema on every kind of database that it was found on."""
    names = sorted({path.name.partition(".")[0] for path in FOLDER.glob("*.sql")})
    kinds: tuple[DatabaseKind, ...] = ("postgresql", "mariadb")
    return [WildShop(name, kind) for name in names for kind in kinds if WildShop(name, kind).path.exists()]
