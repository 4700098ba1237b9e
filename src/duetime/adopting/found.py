"""What was found in a database, in words that know no database: tables, columns, keys, and samples of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from duetime.shop import TableName

ColumnKind = Literal["integer", "decimal", "text", "uuid", "instant", "naive", "other"]
"""``instant`` keeps its zone (timestamptz, MySQL's TIMESTAMP); ``naive`` is a date and time that does not."""

SAMPLE_ROWS: Final = 10_000
"""How many rows of one table are looked at, the newest first."""


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """One column; ``choices`` are the values that a type or a check allows, ``quoted`` is its name as SQL writes it."""

    name: str
    kind: ColumnKind
    nullable: bool = True
    comment: str = ""
    choices: tuple[str | int, ...] = ()
    quoted: str = ""

    @property
    def names(self) -> bool:
        """True where its values can name an order or what it holds; bytes cannot."""
        return self.kind == "decimal" or self.identifies

    @property
    def identifies(self) -> bool:
        """True where it can be the order table's ``id``, by which pages go."""
        return self.kind in {"integer", "text", "uuid"}


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A foreign key."""

    columns: tuple[str, ...]
    table: TableName
    target: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """One table; ``unique`` are the sets of columns that name one row, the primary key not among them."""

    name: TableName
    columns: tuple[FoundColumn, ...]
    primary_key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[FoundKey, ...] = ()
    comment: str = ""

    def column(self, name: str) -> FoundColumn:
        """Answer the column of a name."""
        return next(column for column in self.columns if column.name == name)

    def of_kind(self, *kinds: ColumnKind) -> list[FoundColumn]:
        """Answer the columns of some kinds."""
        return [column for column in self.columns if column.kind in kinds]

    def key_of(self, column: str) -> FoundKey | None:
        """Answer the foreign key that stands on one column alone."""
        return next((key for key in self.foreign_keys if key.columns == (column,)), None)

    @property
    def written(self) -> str:
        """The name as the config writes it: a part with a dot or quotes of its own stands in double quotes."""
        parts = [part for part in self.name if part is not None]
        plain = not any(mark in part for part in parts for mark in '."')
        return ".".join(parts) if plain else ".".join('"' + part.replace('"', '""') + '"' for part in parts)


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest rows of a table; ``whole`` where these are all."""

    rows: Sequence[Mapping[str, Any]] = ()
    whole: bool = True
    refused: str = ""

    def values(self, column: str) -> list[Any]:
        """Answer the values of a column that are there."""
        return [row[column] for row in self.rows if row.get(column) is not None]

    @property
    def how(self) -> str:
        """Say what was looked at."""
        if self.refused:
            return f"(the rows could not be read: {self.refused})"
        return f"in all {len(self.rows)} rows" if self.whole else f"in the newest {len(self.rows)} rows"


@dataclass(frozen=True, slots=True)
class FoundShop:
    """A database: its tables, samples of some of them by name, and its clock (UTC).

    ``unseen`` are tables that are not described to this account; ``schema`` is that of tables named without one.
    """

    tables: tuple[FoundTable, ...]
    clock: datetime
    samples: Mapping[TableName, Sample] = field(default_factory=dict)
    unseen: tuple[TableName, ...] = ()
    schema: str | None = None

    def table(self, name: TableName) -> FoundTable | None:
        """Answer the table of a name."""
        return next((table for table in self.tables if table.name == name), None)

    def sample(self, table: FoundTable) -> Sample:
        """Answer the sample of a table; an empty one where none was taken."""
        return self.samples.get(table.name, Sample())
