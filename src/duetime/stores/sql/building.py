"""How a statement is built once and kept."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class Keeper(Protocol):
    """Whoever keeps statements."""

    memo: dict[object, Any]


def built(method: Callable[P, R]) -> Callable[P, R]:
    """Build a statement once for each set of arguments, and keep it with its owner."""

    @wraps(method)
    def get(*args: P.args, **kwargs: P.kwargs) -> R:
        owner = cast("Keeper", args[0])  # the method's self
        key = (method.__name__, args[1:], tuple(kwargs.items()))
        if key not in owner.memo:
            owner.memo[key] = method(*args, **kwargs)
        result: R = owner.memo[key]
        return result

    return get
