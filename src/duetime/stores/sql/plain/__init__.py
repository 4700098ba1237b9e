"""Whole transactions in plain SQL, for programs in other languages: ``duetime sql place``, ``pay`` and ``cancel``."""

from collections.abc import Callable, Mapping
from typing import Final

from duetime.stores.sql.plain.cancel import cancel
from duetime.stores.sql.plain.pay import pay
from duetime.stores.sql.plain.place import place
from duetime.stores.sql.plain.recipes import Recipe, Recipes

RECIPES: Final[Mapping[str, Callable[[Recipes], Recipe]]] = {"place": place, "pay": pay, "cancel": cancel}
