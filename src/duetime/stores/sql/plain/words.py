"""How each database says what the others say differently, as text.

No text here has a percent sign (drivers that write parameters as ``%s`` would want it doubled) or, outside quotes, a
colon that is not a parameter's (``CAST`` instead of ``::``), so that any program can turn parameters into its own form.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from duetime.shop import StateValue

LONG: Final = 55
"""Characters after which something is written in several lines."""


class Words(ABC):
    """One database's ways to say things."""

    begin: ClassVar[str]
    now: ClassVar[str]
    """The server's clock as our own tables hold it; the same value everywhere in one statement."""
    lock: ClassVar[str] = "\nFOR UPDATE"
    """Ends the statement that locks an order."""
    big: ClassVar[str]
    """A value as a whole number."""
    small: ClassVar[str] = "{value}"
    """A parameter as text."""
    name: ClassVar[str]
    """A value of the shop's as a name of ours: text that compares byte by byte."""
    word: ClassVar[str] = "{value}"
    """A made value as a word of ours: ASCII."""
    joining: ClassVar[tuple[str, str]] = ("(", " || ")
    """How texts are put one behind the other: what opens it, and what stands between."""
    isolation: ClassVar[str]

    @abstractmethod
    def object(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Make a JSON object of keys and expressions."""

    def laid_out(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Make a JSON object, one key in each line."""
        opening, _, rest = self.object(pairs[:1]).partition("(")
        first = rest.removesuffix(")")
        lines = [first, *(f"'{key}', {value}" for key, value in pairs[1:])]
        return f"{opening}(\n    " + ",\n    ".join(lines) + "\n)"

    @abstractmethod
    def array(self, element: str, rows: str) -> str:
        """Make a JSON array of ``element`` for each of the rows, which may be none."""

    @abstractmethod
    def instant(self, own: str) -> str:
        """Write an instant of one of our own tables as facts write it."""

    @abstractmethod
    def wanted(self, kind: str, events: str) -> str:
        """Say that a fact's type is one of those that a consumer asked for."""

    @abstractmethod
    def digest(self, text: str) -> str:
        """Make a short word of a long one, always the same."""

    def upsert(self, columns: Sequence[str]) -> str:
        """Say that a row that is there already takes the new values."""
        return "ON CONFLICT (order_no) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in columns)

    def joined(self, *parts: str, indent: int = 0) -> str:
        """Put texts one behind the other; where that gets long, in lines of their own."""
        opening, between = self.joining
        if indent and sum(map(len, parts)) > LONG:
            line = "\n" + " " * indent
            return f"{opening}{line}    {(between.rstrip() + line + '    ').join(parts)}{line})"
        return f"{opening}{between.join(parts)})"

    def literal(self, value: StateValue) -> str:
        """Write a value of the configuration."""
        return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"

    def shown(self, value: str) -> str:
        """Write a value of the shop's as people read it."""
        return f"CAST({value} AS text)"


class PostgreSQLWords(Words):
    """PostgreSQL."""

    begin: ClassVar[str] = "BEGIN"
    now: ClassVar[str] = "statement_timestamp()"
    lock: ClassVar[str] = "\nFOR NO KEY UPDATE"
    big: ClassVar[str] = "CAST({value} AS bigint)"
    small: ClassVar[str] = "CAST({value} AS varchar)"
    name: ClassVar[str] = 'CAST({value} AS varchar) COLLATE "C"'
    isolation: ClassVar[str] = "READ COMMITTED, the default"

    def object(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Say ``json_build_object``."""
        return f"json_build_object({_pairs(pairs)})"

    def array(self, element: str, rows: str) -> str:
        """Say ``json_agg``; it orders what it gathers."""
        gathered = f"json_agg(\n            {element} ORDER BY h.kind, h.ref\n        )"
        return f"(\n        SELECT COALESCE({gathered}, '[]')\n        {rows}\n    )"

    def instant(self, own: str) -> str:
        """Write it in UTC; the colons of the format stand in double quotes, where no program looks for parameters."""
        return f"to_char({own} AT TIME ZONE 'UTC', {FORMAT})"

    def wanted(self, kind: str, events: str) -> str:
        """Unfold the list."""
        return f"{kind} IN (SELECT json_array_elements_text({events}))"

    def digest(self, text: str) -> str:
        """Say ``md5``."""
        return f"md5({text})"


FORMAT = '\'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"\''
"""PostgreSQL's format of instants in facts."""


class MySQLWords(Words):
    """MySQL and MariaDB."""

    begin: ClassVar[str] = "START TRANSACTION"
    now: ClassVar[str] = "UTC_TIMESTAMP(6)"
    big: ClassVar[str] = "CAST({value} AS SIGNED)"
    name: ClassVar[str] = "CONVERT({value} USING utf8mb4) COLLATE utf8mb4_bin"
    word: ClassVar[str] = "CONVERT({value} USING ascii)"
    joining: ClassVar[tuple[str, str]] = ("CONCAT(", ", ")
    isolation: ClassVar[str] = "READ COMMITTED is best; REPEATABLE READ, the default, is right too"

    def object(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Say ``JSON_OBJECT``."""
        return f"JSON_OBJECT({_pairs(pairs)})"

    def array(self, element: str, rows: str) -> str:
        """Say ``JSON_ARRAYAGG``; read again as JSON, because MariaDB takes a subquery's answer for text."""
        return f"JSON_EXTRACT((\n        SELECT COALESCE(JSON_ARRAYAGG({element}), '[]')\n        {rows}\n    ), '$')"

    def instant(self, own: str) -> str:
        """Write six digits, as the column has."""
        return f"CONCAT(REPLACE(CAST(CAST({own} AS DATETIME(6)) AS CHAR(26)), ' ', 'T'), 'Z')"

    def wanted(self, kind: str, events: str) -> str:
        """Say ``JSON_CONTAINS``."""
        return f"JSON_CONTAINS({events}, JSON_QUOTE({kind}))"

    def digest(self, text: str) -> str:
        """Say ``MD5``."""
        return f"MD5({text})"

    def upsert(self, columns: Sequence[str]) -> str:
        """Say ``ON DUPLICATE KEY UPDATE``."""
        return "ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in columns)

    def literal(self, value: StateValue) -> str:
        """Double backslashes too."""
        return super().literal(value if isinstance(value, int) else value.replace("\\", "\\\\"))

    def shown(self, value: str) -> str:
        """Say ``CONVERT``."""
        return f"CONVERT({value} USING utf8mb4)"


class SQLiteWords(Words):
    """SQLite; its clock knows milliseconds, and its instants are text."""

    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    now: ClassVar[str] = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
    lock: ClassVar[str] = ""
    big: ClassVar[str] = "CAST({value} AS INTEGER)"
    name: ClassVar[str] = "CAST({value} AS TEXT)"
    isolation: ClassVar[str] = "there is only one; BEGIN IMMEDIATE locks the database"

    def object(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Say ``json_object``."""
        return f"json_object({_pairs(pairs)})"

    def array(self, element: str, rows: str) -> str:
        """Say ``json_group_array``."""
        return f"json((\n        SELECT json_group_array({element})\n        {rows}\n    ))"

    def instant(self, own: str) -> str:
        """Fill up to six digits what may have been written with fewer."""
        digits = f"CASE WHEN instr({own}, '.') > 0 THEN '' ELSE '.' END"
        return f"(replace(substr({own} || {digits} || '000000', 1, 26), ' ', 'T') || 'Z')"

    def wanted(self, kind: str, events: str) -> str:
        """Unfold the list."""
        return f"{kind} IN (SELECT value FROM json_each({events}))"

    def digest(self, text: str) -> str:
        """Leave it long: SQLite has no digest, and no limit either."""
        return text


WORDS: dict[str, Words] = {"postgresql": PostgreSQLWords(), "mysql": MySQLWords(), "sqlite": SQLiteWords()}


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"'{key}', {value}" for key, value in pairs)
