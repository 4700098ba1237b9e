"""Write the parts of the documentation that the code already says: run it when a test says that a page is stale.

usage: python -m scripts.generate_docs [PAGE ...]
"""

import argparse
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr

from duetime.config.keys import Key, dotted
from duetime.config.problems import listed
from duetime.settings import KNOWN, NOT_YET
from duetime.units import format_duration
from scripts import docs_cli, docs_events, docs_pages, docs_tables

ROOT: Final = Path(__file__).resolve().parent.parent

_HEAD: Final = """\
# Config

<!-- Written by scripts/generate_docs.py config; change the descriptions in src/duetime/settings.py and shop.py. -->

The file is `--config FILE`, else what `DUETIME_CONFIG` names, else `./duetime.toml`. A key that is not here, a
number without its unit and values that cannot stand together are refused at the start, with the key's path.

**Durations** are written with a unit: `"250ms"` `"45s"` `"30m"` `"2h"` `"7d"` `"1h30m"`.
**Optional things**, such as a column that the shop does not have, are written `""`.

**Environment.** Every key can be set by a variable: `DUETIME_` and the path, in capitals, joined by two underscores:
`DUETIME_STORE__URL`. The same name with `_FILE` behind it names a file that holds the value
(`DUETIME_STORE__URL_FILE=/run/secrets/url`); line breaks at its end do not count. Lists are given whole, as JSON:
`DUETIME_ASSETS='[{"kind": "points", "storage": "remote"}]'`. Tables whose keys are yours take one variable for each
key, in small letters (`DUETIME_TIMEOUTS__CATEGORY__SECKILL=5m`), or JSON, which keeps capitals. Where a key allows
integers and text, `0` is the integer and `"0"`, quotes included, is the text. The environment comes before the files
that it names, these come before the TOML file.

Without any `[[assets]]` the sample shop's are meant: stock and coupons.
"""


def config_reference() -> str:
    """Return the reference of all keys: key, type, default, meaning."""
    return "\n".join([_HEAD, *_sections(), *_not_yet()])


def _sections() -> Iterator[str]:
    for key in KNOWN.values():
        if key.below is not None:
            yield from _section(key)


def _not_yet() -> Iterator[str]:
    yield "## Understood, and not served by this version yet\n"
    for later in NOT_YET:
        yield f"- `{dotted(later.path)}`: {later.sentence}"
    yield ""


def _section(section: Key) -> Iterator[str]:
    name = dotted(section.path).replace("[]", "")
    yield f"## `[[{name}]]`\n" if section.many else f"## `[{name}]`\n"
    yield f"{section.field.description}\n"
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    below = (key for key in KNOWN.values() if key.path[:-1] == (*section.path, *["[]"] * section.many))
    for key in below:
        cells = (f"`{key.path[-1]}`", _type(key), _default(key), key.field.description or "")
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _type(key: Key) -> str:
    if key.below is not None:
        return "list of tables" if key.many else "table"
    if key.kind is not None:
        return key.kind.words
    choices = _choices(key.field.annotation)
    if choices:
        return f"list of {listed(choices)}" if get_origin(key.field.annotation) is not Literal else listed(choices)
    return "table"


def _choices(annotation: Any) -> tuple[str, ...]:  # noqa: ANN401 -- an annotation may be anything
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


def _default(key: Key) -> str:
    if key.field.is_required():
        return "needed"
    if key.below is not None:
        return "the keys below" if key.field.default is not None and not key.many else "none"
    value = key.field.default
    if value is None and key.kind is None:
        return "all"
    return f"`{_written(key.kind.absent if value is None and key.kind else value)}`"


def _written(value: object) -> str:
    if isinstance(value, SecretStr):
        return json.dumps(value.get_secret_value())
    if isinstance(value, timedelta):
        return json.dumps(format_duration(value))
    if isinstance(value, tuple) and len(value) == 1:
        return json.dumps(value[0])
    return "{ }" if value == {} else json.dumps(value)


PAGES: Final[dict[str, tuple[Path, Callable[[], str]]]] = {
    "cli": (ROOT / "docs" / "reference" / "cli.md", docs_cli.cli),
    "config": (ROOT / "docs" / "reference" / "config.md", config_reference),
    "events": (ROOT / "docs" / "reference" / "events.md", docs_events.events),
    "lifecycle": (ROOT / "docs" / "explanation" / "lifecycle.md", docs_pages.lifecycle),
    "outcomes": (ROOT / "docs" / "reference" / "outcomes.md", docs_pages.outcomes),
    "python": (ROOT / "docs" / "reference" / "python.md", docs_pages.python),
    "tables": (ROOT / "docs" / "reference" / "tables.md", docs_tables.tables),
}


def main() -> None:
    """Write the pages that were named, or all."""
    parser = argparse.ArgumentParser(description="Write the generated pages of the documentation, or some of them.")
    parser.add_argument("page", nargs="*", help=f"one of {', '.join(sorted(PAGES))}; all unless given")
    pages = parser.parse_args().page
    for page in sorted(set(pages) - set(PAGES)):
        parser.error(f"there is no page {page}")
    for page in pages or sorted(PAGES):
        path, text = PAGES[page]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(), encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
