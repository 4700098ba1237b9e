"""Adopting a shop's tables: from what a database says about itself to a proposal for the config."""
