"""Every race runs on every server."""

from tests.support.shops import empty_shop, new_shop, shop

__all__ = ["empty_shop", "new_shop", "shop"]
