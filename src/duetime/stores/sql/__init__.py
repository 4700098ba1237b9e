"""The store on a shop's own SQL database."""
