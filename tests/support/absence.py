"""What happens to a test whose server is not there."""

import os
from typing import NoReturn

import pytest


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"true", "1"}


def without(server: str, found: str) -> NoReturn:
    """Skip on a laptop; fail in CI, where a test that never ran must not look like one that passed."""
    by_hand = 'scripts/services up && eval "$(scripts/services env)"'
    sentence = f"{server} is not there: {found}. `make test` starts it; by hand: {by_hand}"
    if in_ci():
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
