"""Triggers: who says when to look at an order."""
