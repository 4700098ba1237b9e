"""Pages of the documentation that the code already says: the lifecycle, the outcomes, the names for Python.

Sentences that the code does not say stand here, by the name of what they are about. A name that the code has and that
is missing here is an error when the page is written, so that nothing new stays undocumented.
"""

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from textwrap import fill
from types import UnionType
from typing import Any, Final, get_args

import duetime
from duetime import blocking, order
from duetime.hold import HOLD_MOVES, HoldMove, HoldState
from duetime.order import MOVES, Move, State, outcome_word

DONE_BY: Final[Mapping[Move, str]] = {
    Move.PAY: "`pay`",
    Move.CLOSE: "the sweep, and `close`",
    Move.EXTEND: "`extend`",
    Move.CLAIM: "nobody in this version: a payment provider will be asked",
    Move.UNCLAIM: "nobody in this version: the provider gave no answer",
    Move.SHIP: "the shop itself",
    Move.FINISH: "the shop itself",
    Move.REFUND: "the shop itself",
    Move.REOPEN: "nobody in this version: staff will give a closed order another deadline",
    Move.REOPEN_PAID: "nobody in this version: late money will bring a closed order back",
}

STATES: Final[Mapping[State, str]] = {
    State.PENDING: "Placed and not paid. The only state in which an order becomes due.",
    State.CLOSING: "A payment provider is being asked. A shop without such a guard never sees it.",
    State.PAID: "Paid in time. duetime never closes it.",
    State.CLOSED: "Closed, by its deadline or by a person. What it held goes back.",
    State.SHIPPED: "The shop's own state after *paid*; duetime leaves it alone.",
    State.FINISHED: "The shop's own state; duetime leaves it alone.",
    State.REFUNDED: "The shop's own state; duetime leaves it alone.",
}

HOLD_STATES: Final[Mapping[HoldState, str]] = {
    HoldState.HELD: "The order is pending and has taken this.",
    HoldState.RELEASING: "The order is closed; the asset's row was locked, or is kept elsewhere. Its units are owed.",
    HoldState.RELEASED: "Given back. Nothing happens to it any more.",
    HoldState.CONSUMING: "The order is paid; the asset's row was locked, or was not as it must be. It follows.",
    HoldState.CONSUMED: "Used up by a paid order. Nothing happens to it any more.",
}

_LIFECYCLE: Final = """\
# The life of an order

<!-- Written by scripts/generate_docs.py lifecycle, from MOVES in order.py and HOLD_MOVES in hold.py. -->

An order may move only as this page says. Each move is one write that names the state it expects, so two moves that
race for one order cannot both win: the second finds the order in another state, changes nothing, and its caller is
[told who won](../reference/outcomes.md). The tables are the ones that the code uses, `MOVES` in `src/duetime/order.py`
and `HOLD_MOVES` in `src/duetime/hold.py`; `tests/unit/test_order.py` tries every state with every move.
"""

_STATUS: Final = """\
Your status column holds your own values; `[orders.states]` says which of them mean *pending*, *paid* and *closed*. A
value that it does not name is left alone, whatever it means to you.
"""

_HOLDS: Final = """\
## The life of a hold

What an order holds follows the order, in the same transaction. Where somebody else has the asset's row locked at that
moment, the hold is promised (`releasing`, `consuming`) and the releaser keeps the promise as soon as the row is free.
From each state there is one way on, so a hold is given back or used up, once.
"""


def lifecycle() -> str:
    """Return the page on states and moves."""
    holds = list(HOLD_MOVES.items())
    return "\n".join(
        [
            _LIFECYCLE,
            *_diagram(State.PENDING, MOVES.items()),
            *table(("state", "meaning"), ((f"`{state}`", STATES[state]) for state in State)),
            _STATUS,
            "## Every state with every move\n",
            "An empty cell is forbidden: nothing changes when it is tried.\n",
            *_product(State, Move, MOVES),
            *table(("move", "who makes it"), ((f"*{move}*", DONE_BY[move]) for move in Move)),
            _HOLDS,
            *_diagram(HoldState.HELD, holds),
            *table(("state", "meaning"), ((f"`{state}`", HOLD_STATES[state]) for state in HoldState)),
            *_product(HoldState, HoldMove, HOLD_MOVES),
        ]
    )


def _diagram(first: Enum, moves: Iterable[tuple[tuple[Any, Any], Any]]) -> Iterator[str]:
    yield "```mermaid\nstateDiagram-v2"
    yield f"    [*] --> {first.value}"
    for (state, move), to in moves:
        yield f"    {state.value} --> {to.value}: {move.value}"
    yield "```\n"


def _product(states: type[Enum], moves: type[Enum], allowed: Mapping[Any, Any]) -> Iterator[str]:
    rows = (
        (f"**{state.value}**", *(allowed[state, move].value if (state, move) in allowed else "" for move in moves))
        for state in states
    )
    return table(("", *(f"*{move.value}*" for move in moves)), rows)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table, and an empty one."""
    names = list(heads)
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


# Outcomes

FIELDS: Final[Mapping[str, str]] = {
    "order_no": "The order's number: as the shop's row has it, where there is one.",
    "Closed.reason": "`timeout`, `customer`, `staff` or `payment_failed`.",
    "Closed.source": "`sweep`, `retry` (an earlier try had failed), or the name that the caller gave.",
    "expire_at": "The deadline; without a value where the row has none.",
    "closed_at": "When it was closed, by the store's clock.",
    "lateness_ms": "Milliseconds from deadline plus grace to the close; without a value where a person closed it.",
    "released": "What goes back, with the close or right after it.",
    "event_id": "The identity of the fact that was written.",
    "AlreadyClosed.reason": "Why, where the shop or duetime wrote it down.",
    "AlreadyClosed.source": "By whom, where it was written down.",
    "status": "The value of the shop's status column, as text.",
    "due_at": "Deadline plus grace; without a value where the order has no deadline.",
    "why": "What stands in the way, in a sentence that names the row.",
    "NeedsReview.why": "What the money met: a closed order, another amount, a number that nobody knows.",
    "Refused.why": "Which limit stands against it.",
    "kind": "The kind of the asset that is short.",
    "ref": "Its key.",
    "wanted": "How many units the order wanted.",
    "available": "How many there are; without a value where there is no such row.",
    "payment_id": "The provider's own number of the payment.",
    "repeat": "This notice had been answered before, and the answer is the same.",
    "found": "*already closed*, *already paid* or *unknown order*; without a value where only the money is wrong.",
    "extended": "All the time that the order was given so far.",
}

ADVICE: Final[Mapping[str, str]] = {
    "Closed": "Nothing. Tell the customer, if a person asked for it.",
    "AlreadyClosed": "Nothing. Show who closed it and why.",
    "AlreadyPaid": "Treat the order as won by whoever moved it; do not cancel it.",
    "NotYetDue": "Come back at `due_at`. The sweep will, by itself.",
    "Busy": "Try again shortly: in a request after some tenths of a second, a few times. The sweep will, by itself.",
    "UnknownOrder": "Look for a typing error, or for a transaction that was rolled back.",
    "Blocked": "Repair the row that `why` names. At its deadline the order is tried again by itself, then put "
    "[in quarantine](../how-to/quarantine.md); an order that somebody wanted closed is not.",
    "Placed": "Commit nothing more: the order exists. Show `expire_at` to the customer.",
    "OutOfStock": "Tell the customer what is short. The order was not placed and holds nothing.",
    "AlreadyPlaced": "Nothing was written. After a lost answer this is your own order: read it.",
    "Paid": "Answer the provider with success.",
    "NeedsReview": "Answer the provider with success: the money is written down in `duetime_payment` as `manual`. "
    "Let a person decide about it.",
    "Extended": "Show the new deadline.",
    "Refused": "Tell who asked which limit stands against it.",
}

UNIONS: Final[Mapping[str, Any]] = {
    "PlaceOutcome": order.PlaceOutcome,
    "PayOutcome": order.PayOutcome,
    "ExtendOutcome": order.ExtendOutcome,
    "Outcome": order.Outcome,
}
VERBS: Final[Mapping[str, Any]] = {
    "place": order.PlaceOutcome,
    "pay": order.PayOutcome,
    "close": order.Outcome,
    "extend": order.ExtendOutcome,
}

_OUTCOMES: Final = """\
# Outcomes

<!-- Written by scripts/generate_docs.py outcomes, from the dataclasses in src/duetime/order.py. -->

What an attempt found is a value, and each attempt answers one. Exceptions are for a world that is broken: a caller who
says what cannot be meant (`InvalidInput`), a database that stays away (`StoreUnavailable`), a description that does not
fit (`ConfigError`, `StoreMisfit`); [the names for Python](python.md) list them. All outcomes are frozen dataclasses, so
`match` takes them apart and a type checker says which one was forgotten:

<!-- skip: a sketch; the tutorial runs a whole one -->
```python
match await duetime.pay(order_no, payment_id="p-1", amount_minor=1990, currency="CNY"):
    case Paid(repeat=repeat):
        ...  # once per payment id, whatever the provider repeats
    case NeedsReview(why=why, found=AlreadyClosed()):
        ...  # the money came after the close
    case NeedsReview(why=why):
        ...  # another amount, an unknown order, a second payment
    case Busy():
        ...  # answer the provider with an error: it will come again
```

Names for all answers of a call (`PlaceOutcome`, `PayOutcome`, `Outcome` for `close`, `ExtendOutcome`) are in
`duetime.order`, and so is `outcome_word`, which names an outcome for logs and people: *not yet due* for `NotYetDue`.
"""


def outcomes() -> str:
    """Return the page on what attempts find."""
    classes = list(dict.fromkeys(outcome for union in VERBS.values() for outcome in get_args(union)))
    answers = (
        [f"[{outcome_word(object.__new__(cls))}](#{cls.__name__.lower()})" for cls in get_args(union)]
        for union in VERBS.values()
    )
    rows = ((f"`{verb}`", ", ".join(found)) for verb, found in zip(VERBS, answers, strict=True))
    return "\n".join(
        [_OUTCOMES, *table(("call", "answers"), rows), *(line for cls in classes for line in _outcome(cls))]
    )


def _outcome(cls: type[Any]) -> Iterator[str]:
    name = cls.__name__
    verbs = ", ".join(f"`{verb}`" for verb, union in VERBS.items() if cls in get_args(union))
    yield f"## {name}\n"
    yield f"{_prose(cls)}\n"
    yield fill(f"From {verbs}. **What to do:** {ADVICE[name]}", 120, break_on_hyphens=False) + "\n"
    fields = dataclasses.fields(cls)
    types = typing.get_type_hints(cls, vars(duetime))
    yield from table(
        ("field", "type", "meaning"),
        ((f"`{one.name}`", f"`{_type(types[one.name])}`", _field(name, one.name)) for one in fields),
    )


def _field(cls: str, name: str) -> str:
    return FIELDS.get(f"{cls}.{name}") or FIELDS[name]


# Names for Python

_PYTHON: Final = """\
# Python

<!-- Written by scripts/generate_docs.py python, from the code's own signatures and docstrings. -->

What `from duetime import …` offers. Everything else may change without notice, but for `duetime.blocking` below and for
`duetime.testing`, which backends of your own are tested with.
"""

_GROUPS: Final[Mapping[str, str]] = {
    "calls": "The object that a shop's program calls.",
    "outcomes": "What attempts find. [Outcomes](outcomes.md) says when, and what to do.",
    "words": "Values that calls take and answer.",
    "errors": "A broken world, or a caller's own words. All are `DuetimeError`.",
    "settings": "[Config](config.md) lists every key.",
}


def python() -> str:
    """Return the page on public names."""
    lines = [_PYTHON]
    for group, sentence in _GROUPS.items():
        names = [name for name in duetime.__all__ if _group(name) == group]
        lines += [f"## {group.capitalize()}\n", f"{sentence}\n"]
        for name in names:
            lines += _public(f"duetime.{name}", getattr(duetime, name))
    lines += ["## Without an event loop\n", *_public("duetime.blocking.Duetime", blocking.Duetime)]
    return "\n".join(lines)


def _group(name: str) -> str:
    found = getattr(duetime, name)
    if name in ADVICE:
        return "outcomes"
    if isinstance(found, type) and issubclass(found, Exception):
        return "errors"
    if found is duetime.Duetime:
        return "calls"
    return "settings" if "settings" in name.lower() else "words"


def _public(path: str, found: Any) -> Iterator[str]:  # noqa: ANN401 -- whatever the package exports
    yield f"### `{path}`\n"
    if isinstance(found, str):
        yield "The version of the package, as text.\n"
        return
    if path.removeprefix("duetime.") not in ADVICE and not _plain_error(found):
        yield f"```pyi\n{_signature(found)}\n```\n"
    yield f"{_prose(found)}\n"
    if isinstance(found, type) and issubclass(found, Enum):
        yield f"Values: {', '.join(f'`{member.value}`' for member in found)}.\n"
    if found in (duetime.Duetime, blocking.Duetime):
        yield from _methods(found)


def _plain_error(found: Any) -> bool:  # noqa: ANN401 -- as above
    return isinstance(found, type) and issubclass(found, Exception) and found is not duetime.ConfigError


def _methods(cls: type[Any]) -> Iterator[str]:
    for name, method in vars(cls).items():
        if not name.startswith("_"):
            yield f"#### `{name}`\n"
            yield f"```pyi\n{_signature(getattr(cls, name), name)}\n```\n"
            yield f"{_prose(method)}\n"


def _signature(found: Any, name: str = "") -> str:  # noqa: ANN401 -- as above
    if isinstance(found, type) and issubclass(found, Enum):
        return f"class {found.__name__}(StrEnum)"
    if found is duetime.Settings:
        return "class Settings(BaseSettings)"
    wrapped = inspect.unwrap(found)
    kind = "class" if isinstance(found, type) else "async def" if inspect.iscoroutinefunction(wrapped) else "def"
    if wrapped is not found:
        kind = "async with" if inspect.isasyncgenfunction(wrapped) else "with"
    signature = inspect.signature(wrapped)
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    kept = signature.replace(parameters=parameters)
    if kind not in {"async def", "def"}:
        kept = kept.replace(return_annotation=inspect.Signature.empty)
    return _wrapped(kind, name or found.__name__, _plain(str(kept)))


def _wrapped(kind: str, name: str, signature: str) -> str:
    line = f"{kind} {name}{signature}"
    if len(line) <= 100:  # noqa: PLR2004 -- what fits beside the margin of a rendered page
        return line
    inside, end = signature[1:].rsplit(")", 1)
    parts = re.split(r", (?![^\[{(]*[\]})])", inside)
    return f"{kind} {name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def _type(annotation: Any) -> str:  # noqa: ANN401 -- an annotation may be anything
    if isinstance(annotation, UnionType):
        return " | ".join(_type(part) for part in get_args(annotation))
    return _plain(inspect.formatannotation(annotation)).replace("NoneType", "None")


def _plain(text: str) -> str:
    """Leave names without the modules they live in, and defaults as they are written."""
    text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text.replace("<factory>", "…").replace("'", '"'))
    text = re.sub(r"\*<class \"?(\w+)\"?>", r"Unpack[\1]", text)
    text = re.sub(r"\bOptional\[(\w+)\]", r"\1 | None", text)
    for alias, union in UNIONS.items():
        text = text.replace(" | ".join(one.__name__ for one in get_args(union)), alias)
    return text


def _prose(found: Any) -> str:  # noqa: ANN401 -- as above
    """Return a docstring as Markdown."""
    text = inspect.getdoc(found) or ""
    text = text.replace("``", "`")
    return re.sub(r"\nRaises:\n((?: {4,}.*\n?)+)", _raises, text + "\n").strip()


def _raises(section: re.Match[str]) -> str:
    entries = re.sub(r"\n\s{8,}", " ", section[1])
    return "\nRaises:\n\n" + re.sub(r"^\s*(\w+): ", r"- `\1`: ", entries, flags=re.MULTILINE)
