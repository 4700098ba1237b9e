"""duetime's own tables, revision by revision, as Alembic runs them. Nobody needs an ``alembic.ini`` for it.

A revision is frozen once released: it holds its statements as text and reads nothing of ``schema``, which describes
the newest tables and goes on changing. ``tests/migrations`` compares where the two lead.
"""
