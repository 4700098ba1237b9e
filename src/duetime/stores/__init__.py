"""Who fulfils the store contract: ``memory`` (the executable model) and ``sql`` (PostgreSQL, MySQL/MariaDB, SQLite)."""
