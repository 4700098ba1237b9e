"""Shops as found in the wild: duetime adopts each of them without a change to it."""
