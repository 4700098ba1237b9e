"""The transactions of ``duetime sql place``, ``pay`` and ``cancel`` as text that can be copied into any program."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from duetime.stores.sql.plain.recipes import Recipe, Step

WIDTH: Final = 112
PARAMETERS: Final = (
    "Parameters are written :order_no, several times where they are needed several times. In your program: #{orderNo} "
    "for MyBatis, %(order_no)s for psycopg and PyMySQL, as they stand for Spring's named parameters and JPA, and ? in "
    "this order for JDBC. Always bind them, never paste them in."
)


def recipe_text(recipe: Recipe) -> str:
    """Write a transaction down, with what each statement is for and how many rows it must change."""
    lines = [*_comment(recipe.says), *_comment(f"Isolation: {recipe.isolation}."), *_comment(PARAMETERS), "--"]
    for name, meaning in recipe.parameters.items():
        lines += _comment(f":{name}", meaning)
    for limit in recipe.limits:
        lines += ["--", *_comment(limit)]
    for number, step in enumerate(recipe.steps, start=1):
        lines += ["", *_heading(number, step), f"{step.sql};"]
    return "\n".join(lines)


def _heading(number: int, step: Step) -> Iterator[str]:
    rows = "" if step.rows is None else f" Must change {step.rows} row."
    again = " Once for each." if step.repeat else ""
    yield from _comment(f"{number}. {step.name}: {step.says}{again}{rows}")


def _comment(*parts: str) -> Iterator[str]:
    for line in wrap("  ".join(parts), WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"-- {line}"
