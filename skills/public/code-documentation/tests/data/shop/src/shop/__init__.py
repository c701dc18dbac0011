"""A small shop: baskets and prices."""

from shop.basket import Basket

__all__ = ["Basket"]
