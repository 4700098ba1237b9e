"""The mapper of the page for Java shops is what ``duetime sql pay`` prints."""

import re
from xml.etree import ElementTree as ET

from duetime import Duetime
from duetime.settings import load_settings
from tests.docs.by_hand import prepare
from tests.docs.snippets import blocks

PAGE = "docs/how-to/java-mybatis.md"


def in_mybatis(sql: str) -> str:
    """Write parameters as MyBatis does: ``#{paymentId}`` for ``:payment_id``."""
    return re.sub(r"('[^']*')|:([a-z_]+)", lambda found: found[1] or f"#{{{camel(found[2])}}}", sql)


def camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


async def test_the_mapper_is_what_is_printed(mariadb_url: str) -> None:
    prepare(mariadb_url)
    async with Duetime(load_settings(environ={}, store={"url": mariadb_url})) as duetime:
        recipe = await duetime.wired.store.recipe("pay")
    printed = {step.name: in_mybatis(step.sql) for step in recipe.steps if step.name not in {"begin", "commit"}}
    (mapper,) = (block.text for block in blocks(PAGE) if block.language == "xml")
    shown = {one.attrib["id"]: (one.text or "").strip() for one in ET.fromstring(mapper)}  # noqa: S314 -- our own page
    assert shown == printed


def test_the_java_shown_calls_every_statement_of_the_mapper_in_its_order() -> None:
    (mapper,) = (block.text for block in blocks(PAGE) if block.language == "xml")
    names = [one.attrib["id"] for one in ET.fromstring(mapper)]  # noqa: S314 -- our own page
    service = next(block.text for block in blocks(PAGE) if "class Payments" in block.text)
    assert re.findall(r"mapper\.(\w+)\(", service) == names
    interface = next(block.text for block in blocks(PAGE) if "interface PayMapper" in block.text)
    assert re.findall(r" (\w+)\(.*\);", interface) == names
