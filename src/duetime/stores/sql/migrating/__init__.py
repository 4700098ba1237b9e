"""How ``duetime migrate`` works on each database; ``duetime.stores.sql.migrate`` is the way in."""
