"""The commands, gathered."""

import platform
from functools import cache
from importlib.metadata import version as version_of
from typing import Annotated, Any

import typer

from duetime._version import __version__
from duetime.cli import observe, orders, quarantine
from duetime.cli.common import ConfigOption, JsonOption
from duetime.cli.demo import demo
from duetime.cli.doctor import doctor
from duetime.cli.init import init
from duetime.cli.migrate import migrate
from duetime.cli.output import print_json, say
from duetime.cli.pace import pause, rate, resume
from duetime.cli.sql import sql
from duetime.cli.verify import verify
from duetime.cli.work import run, sweep

DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")]


def before_the_command(config: ConfigOption = None, debug: DebugOption = False) -> None:
    """Close unpaid orders at their payment deadline: on time, exactly once, giving back everything they held."""
    del config, debug  # read from the context by whoever needs them


def config_before(config: ConfigOption = None) -> None:
    """Take the config between a group and its command too."""
    del config


def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    if as_json:
        names = ("sqlalchemy", "pydantic")
        libraries = {name: version_of(name) for name in names}
        print_json({"duetime": __version__, "python": platform.python_version(), **libraries})
    else:
        say(f"duetime {__version__}")


def _group(name: str, summary: str, commands: dict[str, Any]) -> typer.Typer:
    group = typer.Typer(name=name, help=summary, rich_markup_mode=None, no_args_is_help=True)
    group.callback()(config_before)
    for command, function in commands.items():
        group.command(command)(function)
    return group


def program() -> typer.Typer:
    """Make the program with all its commands."""
    top = typer.Typer(
        name="duetime",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110},
    )
    top.callback()(before_the_command)
    top.command("demo")(demo)
    top.command("init")(init)
    top.command("migrate")(migrate)
    top.command("run")(run)
    top.command("sweep")(sweep)
    top.command("pause")(pause)
    top.command("resume")(resume)
    top.command("rate")(rate)
    order = {"show": orders.show, "close": orders.close, "extend": orders.extend}
    waiting = {"list": quarantine.listed, "retry": quarantine.retry, "resolve": quarantine.resolve}
    top.add_typer(_group("order", "Look at one order, or act on it.", order))
    top.add_typer(_group("orders", "List orders.", {"list": orders.listed}))
    top.add_typer(_group("quarantine", "Orders that failed to close, or to give back what they held.", waiting))
    top.add_typer(
        _group("observe", "What the shop's own closer does, beside observe mode.", {"report": observe.report})
    )
    top.command("doctor")(doctor)
    top.command("verify")(verify)
    top.command("sql")(sql)
    top.command("version")(version)
    return top


@cache
def command() -> Any:  # noqa: ANN401 - the parser's own class, whose home has moved between versions
    """Answer the program as the parser of the command line runs it."""
    return typer.main.get_command(program())
