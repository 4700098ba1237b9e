"""Databases without the sample shop, for tests that bring tables of their own."""

from tests.support.shops import empty_shop, new_shop

__all__ = ["empty_shop", "new_shop"]
