"""What every fresh database of the tests starts with."""


def fill_template(url: str) -> None:
    """Prepare the empty PostgreSQL database at `url`; each test's database is then a copy of it.

    Called once per test run. Empty so far: tables that most tests want are created here, because a copy of a database
    takes milliseconds and a migration does not.
    """
    del url
