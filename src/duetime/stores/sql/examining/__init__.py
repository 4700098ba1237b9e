"""What ``duetime doctor`` finds on a SQL database: the checks in their order, each a small method.

Everything is asked of the database as it is, on duetime's own connections and within a few seconds; nothing is changed.
"""

from duetime.clock import Clock
from duetime.doctor import Check
from duetime.stores.sql.examining.books import BooksDesk
from duetime.stores.sql.examining.desk import Terms
from duetime.stores.sql.examining.server import ServerDesk
from duetime.stores.sql.examining.tables import TablesDesk
from duetime.stores.sql.migrate import Migrator
from duetime.stores.sql.store import SqlStore

__all__ = ["Terms", "store_checks"]


def store_checks(store: SqlStore, migrator: Migrator, terms: Terms, *, clock: Clock) -> list[Check]:
    """Answer the checks of the store, in the order in which one builds on the other."""
    server, tables, books = ServerDesk(store, terms, clock), TablesDesk(store, terms, migrator), BooksDesk(store, terms)
    up, there = ("server",), ("server", "own tables", "tables", "uniqueness")
    return [
        Check("server", server.reachable),
        Check("version", server.version, up),
        Check("primary", server.primary, up),
        Check("own tables", tables.own_tables, up),
        Check("tables", tables.described, up),
        Check("uniqueness", tables.unique, (*up, "tables")),
        Check("rights", tables.rights, (*there, "primary")),
        Check("storage", tables.storage, there),
        Check("collation", tables.collations, there),
        Check("index", tables.index, there),
        Check("index use", tables.index_use, (*there, "index")),
        Check("session", server.session, there),
        Check("clock", server.clock, up),
        Check("zone", books.zone, there),
        Check("deadlines", books.deadlines, there),
        Check("left out", books.left_out, there),
        Check("states", books.states, there),
        Check("holds", books.holds, there),
        Check("unfinished", books.unfinished, there),
        Check("quarantine", books.quarantine, there),
        Check("sweep", books.sweep, there),
        Check("backlog", books.backlog, there),
    ]
