"""Kinds of columns: which of them can name an order or hold a state, and how our names become their values.

A name travels as text: in holds, in facts, on the command line. So a column can name an order, or what it holds, where
its values have one way to be written: integers, text, UUIDs. Bytes have many, and are refused.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import CHAR, Enum, Integer, Numeric, String
from sqlalchemy import Uuid as UuidType
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import NullType, TypeEngine

from duetime.shop import StateValue

_LOW, _HIGH, _UNSIGNED_HIGH = -(2**63), 2**63, 2**64


def plain(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    """Answer the kind of the values themselves: what a domain is made of."""
    return plain(kind.data_type) if isinstance(kind, postgresql.DOMAIN) else kind


def named(value: object, kind: TypeEngine[Any]) -> str:
    """Write a value that names something as text, without the spaces that fill up ``char(n)`` on PostgreSQL.

    The database takes them for nothing when it compares, and whoever writes the name elsewhere leaves them out.
    """
    return str(value).rstrip(" ") if isinstance(kind, CHAR) else str(value)


def typed(value: str, kind: TypeEngine[Any]) -> object | None:
    """Turn a name of ours into a value of the shop's column; None where it can be none of its values."""
    try:
        if isinstance(kind, UuidType):
            return UUID(value) if kind.as_uuid else str(UUID(value))
        if isinstance(kind, Integer):
            number = int(value)
            low, high = (0, _UNSIGNED_HIGH) if getattr(kind, "unsigned", False) else (_LOW, _HIGH)
            return number if str(number) == value and low <= number < high else None
    except ValueError:
        return None
    return value


def no_name(kind: TypeEngine[Any]) -> str | None:
    """Say why a column of this kind cannot name an order or what it holds; None where it can."""
    if isinstance(kind, mysql.SET) or not isinstance(kind, Integer | Numeric | String | UuidType | NullType):
        return (
            f"{kind}, and a name is written as an integer, as text or as a UUID: name another unique column (MySQL and "
            "MariaDB can make one of bytes: CHAR(32) AS (HEX(…)) STORED, with a unique index)"
        )
    return None


def no_state(kind: TypeEngine[Any], values: Sequence[StateValue]) -> list[str]:
    """Say what keeps a column of this kind from holding these values; nothing where it can hold them."""
    if isinstance(kind, mysql.SET) or not isinstance(kind, Integer | Numeric | String | NullType):
        return [f"is {kind}: a state is held as an integer, as text or as an ENUM; name or add such a column"]
    return [sentence for value in values if (sentence := _misfit(kind, value))]


def _misfit(kind: TypeEngine[Any], value: StateValue) -> str | None:
    if isinstance(kind, Enum) and isinstance(value, str) and not _is_among(value, kind):
        return f"allows {', '.join(kind.enums)}, and {value!r} is none of them"
    if isinstance(kind, String) and not isinstance(value, str):
        return f'holds text: write "{value}" instead of {value}'
    if isinstance(kind, Integer | Numeric) and not isinstance(value, int):
        return f"is {kind}: a number is needed instead of {value!r}"
    return None


def _is_among(value: str, kind: Enum) -> bool:
    """Compare as the database does: in MySQL's ENUM neither capitals nor spaces at the end count."""
    if not isinstance(kind, mysql.ENUM):
        return value in kind.enums
    return value.casefold().rstrip() in {one.casefold().rstrip() for one in kind.enums}
