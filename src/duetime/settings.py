"""All that an operator can set: its keys, their defaults, what cannot stand together, what is not there yet.

Reading is strict: an unknown key, a number without its unit or a value out of bounds stops the start with a sentence.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from sqlalchemy import URL
from typing_extensions import override

from duetime.config.database_url import async_url, read_url
from duetime.config.keys import EACH, Key, dotted, known_keys
from duetime.config.keys import Path as KeyPath
from duetime.config.problems import listed, sentences
from duetime.config.sources import Sources, gather
from duetime.errors import ConfigError
from duetime.shop import Asset, Described, OrdersTable, sample_assets
from duetime.units import (
    CombinationError,
    Duration,
    Instant,
    Kind,
    Margin,
    Name,
    OptionalName,
    Rate,
    Retention,
    duration,
    format_duration,
    read_text,
    whole,
)

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MOMENT: Final = duration(timedelta(milliseconds=1))


def _read_path(value: object) -> Path | None:
    if value in ("", None):
        return None
    return value if isinstance(value, Path) else Path(read_text(value))


def _read_http_url(value: object) -> str:
    text = read_text(value)
    if not text.startswith(("http://", "https://")):
        raise ValueError("a URL that begins with http:// or https:// is allowed")
    return text


DatabaseUrl = Annotated[SecretStr, Kind("database URL", read_url, secret=True)]
HttpUrl = Annotated[str | None, Kind("http URL", _read_http_url, secret=True)]
SecretFile = Annotated[Path | None, Kind('file or ""', _read_path, secret=True)]
Fact = Literal[
    "order.placed",
    "order.closed",
    "order.paid",
    "order.reopened",
    "order.extended",
    "order.expiring",
    "hold.release",
    "payment.late",
    "refund.requested",
    "order.quarantined",
]


class StoreSettings(Described):
    """The database of the shop, in which duetime's own tables live too."""

    url: DatabaseUrl = Field(
        default=SecretStr("sqlite:///shop.db"),
        description="postgresql://, mysql://, mariadb:// or sqlite:///; the driver is chosen for you.",
    )
    pool_size: Annotated[int, whole(1, 100)] = Field(default=4, description="Connections of duetime's own pool.")
    schema_name: OptionalName = Field(
        default=None,
        alias="schema",
        description="Where duetime's own tables live, if not beside the shop's.",
    )


class TimeoutSettings(Described):
    """How long an order may stay unpaid, where duetime places it."""

    default: Annotated[timedelta, _MOMENT] = Field(
        default=timedelta(minutes=30),
        description="From placing to the deadline; `orders.expire_plus` instead, where that is set.",
    )
    grace: Duration = Field(
        default=timedelta(seconds=5),
        description="Hidden time between the deadline shown to the customer and the close.",
    )
    category: dict[Name, Annotated[timedelta, _MOMENT]] = Field(
        default={},
        description="Instead of the default, for orders of a category.",
    )


class ClosingSettings(Described):
    """How orders are closed."""

    mode: Literal["close", "observe"] = Field(default="close", description="observe writes nothing to the shop.")
    observe_ahead: Duration = Field(
        default=timedelta(minutes=5),
        description="observe: how long before its deadline an order is first looked at.",
    )
    not_before: Instant = Field(default=None, description="Orders with an older deadline are listed, never closed.")
    batch_size: Annotated[int, whole(1, 5000)] = Field(default=500, description="Orders per transaction at most.")
    linger: Duration = Field(default=timedelta(), description="Extra wait to gather a batch.")
    concurrency: Annotated[int, whole(1, 100)] = Field(
        default=2,
        description="Batches written at once; each uses a connection, so not above `store.pool_size`.",
    )
    closes_per_second: Rate = Field(default=None, description="Over the whole fleet.")
    quarantine_after_failures: Annotated[int, whole(1, 1000)] = Field(
        default=5,
        description="Failed attempts until an order goes to quarantine.",
    )
    max_extension: Duration = Field(
        default=timedelta(hours=2),
        description='In all, per order; "0s" switches extending off.',
    )
    lease: Annotated[timedelta, duration(timedelta(seconds=1))] = Field(
        default=timedelta(seconds=10),
        description="How long a silent worker keeps its shards and claims.",
    )
    foreign_close: Literal["report", "release", "forget"] = Field(
        default="report",
        description="What becomes of the holds of orders that the shop closed by itself.",
    )

    @property
    def observes(self) -> bool:
        """Whether nothing is written to the shop."""
        return self.mode == "observe"


class SweepSettings(Described):
    """How often and in what steps the sweep looks for due orders."""

    interval: Annotated[timedelta, duration(timedelta(milliseconds=50))] = Field(
        default=timedelta(seconds=60),
        description="From one pass to the next.",
    )
    page_size: Annotated[int, whole(1, 5000)] = Field(default=500, description="Orders read at once.")
    pause: Duration = Field(default=timedelta(milliseconds=30), description="Between two pages.")
    shards: Annotated[int, whole(1, 1024)] = Field(
        default=8,
        description="Parts in which the work is spread over workers; 1 means a single runner.",
    )
    margin: Margin = Field(default="auto", description="How long the triggers are given before the sweep steps in.")


class TriggerSettings(Described):
    """A trigger that says when to look at an order."""

    type: Literal[
        "wheel",
        "database",
        "redis-zset",
        "rabbitmq-ttl",
        "rabbitmq-ladder",
        "rabbitmq-delayed",
        "rocketmq",
        "rocketmq-levels",
    ] = Field(description="How the trigger works.")
    name: Name = Field(default="", description="The type unless given; must differ between triggers.")
    ahead: Duration = Field(
        default=timedelta(seconds=2), description="How long before the deadline it is asked to call."
    )

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_type(cls, data: Any) -> Any:  # noqa: ANN401 -- whatever the config held
        return _named(data)


class ReminderSettings(Described):
    """A reminder to customers before the deadline."""

    before: Annotated[timedelta, _MOMENT] = Field(description="How long before the deadline.")
    via: Literal["triggers", "redis-expiry"] = Field(default="triggers", description="What calls at that time.")


class ArmingSettings(Described):
    """How a deadline reaches the triggers."""

    mode: Literal["auto", "outbox", "after-commit", "scan", "rocketmq-transaction"] = Field(
        default="auto",
        description="auto arms nothing where triggers look ahead by themselves, and uses the outbox otherwise.",
    )


class LatePaymentSettings(Described):
    """What becomes of money that meets a closed order."""

    policy: Literal["reopen-or-refund", "refund", "manual"] = Field(
        default="reopen-or-refund",
        description="Reopen if everything can be held again, else refund; always refund; or leave it to a person.",
    )


class PublisherSettings(Described):
    """Who is told about facts."""

    type: Literal["webhook", "rabbitmq", "rocketmq", "redis-stream", "python"] = Field(description="How facts travel.")
    name: Name = Field(default="", description="The type unless given; must differ between publishers.")
    url: HttpUrl = Field(default=None, description="webhook: where facts are posted.")
    secret_file: SecretFile = Field(default=None, description="webhook: file with the secret that signs.")
    events: tuple[Fact, ...] | None = Field(default=None, description="The facts that are passed on; all unless given.")

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_type(cls, data: Any) -> Any:  # noqa: ANN401 -- whatever the config held
        return _named(data)


class RelaySettings(Described):
    """How facts are passed on."""

    give_up_after_attempts: Annotated[int, whole(1, 1000)] = Field(
        default=12,
        description="Attempts until a delivery is put aside as dead.",
    )
    per_second: Rate = Field(default=None, description="Deliveries per second.")


class RetentionSettings(Described):
    """How long duetime's own rows are kept; the sweep removes them in small pages."""

    facts: Retention = Field(default=timedelta(days=90), description="Facts and their deliveries.")
    holds: Retention = Field(default=timedelta(days=90), description="Holds of orders that are no longer pending.")
    sweep_runs: Retention = Field(default=timedelta(days=7), description="One row for each pass of the sweep.")
    observed: Retention = Field(
        default=timedelta(days=30), description="Orders that observe mode wrote down; at least 7 days."
    )


class ApiSettings(Described):
    """Where HTTP is served."""

    host: Name = Field(default="127.0.0.1", description="The address to listen on.")
    port: Annotated[int, whole(0, 65535)] = Field(default=8321, description="The port; 0 takes a free one.")
    token_file: SecretFile = Field(default=None, description="File with the token; needed unless on loopback.")


def _named(data: object) -> object:
    if isinstance(data, dict) and "name" not in data and isinstance(data.get("type"), str):
        return {**data, "name": data["type"]}
    return data


_LAYERS: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("layers", default=())


class Settings(BaseSettings):
    """All settings, checked. ``load_settings`` builds them; built directly they are the defaults."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(frozen=True, extra="forbid", case_sensitive=True)

    store: StoreSettings = Field(default=StoreSettings(), description="The database.")
    orders: OrdersTable = Field(default=OrdersTable(), description="The shop's table of orders.")
    assets: tuple[Asset, ...] = Field(default_factory=sample_assets, description="What orders hold.")
    timeouts: TimeoutSettings = Field(default=TimeoutSettings(), description="How long an order may stay unpaid.")
    closing: ClosingSettings = Field(default=ClosingSettings(), description="How orders are closed.")
    sweep: SweepSettings = Field(default=SweepSettings(), description="The net under all triggers.")
    triggers: tuple[TriggerSettings, ...] = Field(default=(), description="What says when to look at an order.")
    reminders: tuple[ReminderSettings, ...] = Field(default=(), description="Words before the deadline.")
    arming: ArmingSettings = Field(default=ArmingSettings(), description="How a deadline reaches the triggers.")
    late_payments: LatePaymentSettings = Field(default=LatePaymentSettings(), description="Money for closed orders.")
    publishers: tuple[PublisherSettings, ...] = Field(default=(), description="Who is told about facts.")
    relay: RelaySettings = Field(default=RelaySettings(), description="How facts are passed on.")
    retention: RetentionSettings = Field(default=RetentionSettings(), description="How long own rows are kept.")
    api: ApiSettings = Field(default=ApiSettings(), description="Where HTTP is served.")

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_others: PydanticBaseSettingsSource,
        **_by_name: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take the layers that ``load_settings`` gathered; nothing is read from this process by itself."""
        return (init_settings, *(InitSettingsSource(settings_cls, layer) for layer in _LAYERS.get()))

    @model_validator(mode="after")
    def _stand_together(self) -> Self:
        problems = [
            *_too_concurrent(self),
            *_repeated(self),
            *_publishers_of_assets(self),
            *_open_to_the_world(self),
            *_two_timeouts(self),
        ]
        if problems:
            raise CombinationError(*problems)
        return self

    @property
    def default_timeout(self) -> timedelta:
        """How long an order may stay unpaid: ``orders.expire_plus`` where that decides, else ``timeouts.default``."""
        return self.orders.expire_plus or self.timeouts.default

    def notices(self) -> tuple[str, ...]:
        """Return what is allowed and may surprise, a sentence each."""
        return (*_not_started(self), *_late_money(self), *_early_reminders(self), *_without_effect(self))


_WITHOUT_EFFECT: Final = (
    ("closing", "linger", "nothing gathers batches yet"),
    ("relay", "give_up_after_attempts", "nothing passes facts on yet"),
    ("relay", "per_second", "nothing passes facts on yet"),
    ("api", "host", "there is no HTTP API yet"),
    ("api", "port", "there is no HTTP API yet"),
    ("api", "token_file", "there is no HTTP API yet"),
)


def _without_effect(settings: Settings) -> Iterator[str]:
    for section, key, why in _WITHOUT_EFFECT:
        part = getattr(settings, section)
        if getattr(part, key) != type(part).model_fields[key].default:
            yield f"{section}.{key} has no effect in this version: {why}"


def _too_concurrent(settings: Settings) -> Iterator[tuple[str, str]]:
    most, wanted = settings.store.pool_size, settings.closing.concurrency
    if wanted > most:
        why = f"each batch that is written needs a connection, so 1 to {most} is allowed, or a larger store.pool_size"
        yield "closing.concurrency", f"found {wanted} with store.pool_size = {most}; {why}"


def _repeated(settings: Settings) -> Iterator[tuple[str, str]]:
    named = [
        ("assets", "kind", [asset.kind for asset in settings.assets]),
        ("triggers", "name", [trigger.name for trigger in settings.triggers]),
        ("publishers", "name", [publisher.name for publisher in settings.publishers]),
    ]
    for section, key, names in named:
        for index, name in enumerate(names):
            if name in names[:index]:
                yield f"{section}[{index}].{key}", f"found {listed([name])} again; each needs a {key} of its own"


def _publishers_of_assets(settings: Settings) -> Iterator[tuple[str, str]]:
    names = [publisher.name for publisher in settings.publishers]
    for index, asset in enumerate(settings.assets):
        if asset.publisher is not None and asset.publisher not in names:
            allowed = f"allowed: {listed(names)}" if names else "there is no [[publishers]] at all"
            yield f"assets[{index}].publisher", f"found {listed([asset.publisher])}; {allowed}"
        if asset.storage == "remote" and asset.publisher is None and len(names) > 1:
            yield f"assets[{index}].publisher", f"is missing; with several publishers, one of {listed(names)} is needed"


def _open_to_the_world(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.api.host not in _LOOPBACK and settings.api.token_file is None:
        yield "api.token_file", f"is missing; it is needed unless api.host is one of {listed(sorted(_LOOPBACK))}"


def _two_timeouts(settings: Settings) -> Iterator[tuple[str, str]]:
    plus, timeouts = settings.orders.expire_plus, settings.timeouts
    if plus is None:
        return
    given = {"timeouts.default": timeouts.default} if "default" in timeouts.model_fields_set else {}
    given |= {f"timeouts.category.{name}": value for name, value in timeouts.category.items()}
    instead = "leave this out, or give the table a column for the deadline"
    for path, value in given.items():
        if value != plus:
            both = (
                f"found {format_duration(value)}, but orders.expire_plus says {format_duration(plus)} for every order"
            )
            yield path, f"{both}; {instead}"


SERVED_TRIGGERS: Final = frozenset({"wheel", "database"})


def _not_started(settings: Settings) -> Iterator[str]:
    served = " and ".join(f'"{one}"' for one in sorted(SERVED_TRIGGERS))
    for index, trigger in enumerate(settings.triggers):
        if settings.closing.observes:
            yield f'triggers[{index}]: "{trigger.name}" is not started: closing.mode is "observe"'
        elif trigger.type not in SERVED_TRIGGERS:
            yield (
                f'triggers[{index}]: "{trigger.name}" is not started: this version has the triggers {served}, and its '
                f"sweep every {format_duration(settings.sweep.interval)}"
            )


def _late_money(settings: Settings) -> Iterator[str]:
    late = settings.late_payments
    if "policy" in late.model_fields_set and late.policy != "manual":
        yield "late_payments.policy: this version records every late payment for a person to decide"


def _early_reminders(settings: Settings) -> Iterator[str]:
    for index, reminder in enumerate(settings.reminders):
        if reminder.before >= settings.default_timeout:
            yield (
                f'reminders[{index}].before: "{format_duration(reminder.before)}" is no shorter than timeouts.default; '
                "orders with that time-out would be reminded as soon as they are placed"
            )


class NotYet(NamedTuple):
    """A value that the models understand and this version cannot serve."""

    path: KeyPath
    wanted: Callable[[Any], bool]
    sentence: str


NOT_YET: Final = (
    NotYet(("orders", "states", "closing"), lambda value: value is not None, "asking a provider before closing"),
    NotYet(("publishers",), bool, "publishing facts"),
    NotYet(("reminders",), bool, "reminding customers"),
    NotYet(("arming", "mode"), lambda mode: mode != "auto", "another mode than auto"),
    NotYet(("late_payments", "policy"), lambda policy: policy == "refund", "refunding by itself"),
)
"""What later versions will serve; a line is deleted when its feature is there."""


def unsupported(settings: Settings) -> tuple[str, ...]:
    """Return a sentence for each value that this version cannot serve yet."""
    return tuple(
        f"{dotted(place)}: {refused.sentence} is not supported by this version yet"
        for refused in NOT_YET
        for place, value in _values(settings, refused.path)
        if refused.wanted(value)
    )


def _values(settings: Settings, path: KeyPath) -> Iterable[tuple[tuple[str | int, ...], Any]]:
    found: list[tuple[tuple[str | int, ...], Any]] = [((), settings)]
    for depth, part in enumerate(path):
        if part == EACH:
            found = [((*place, index), item) for place, items in found for index, item in enumerate(items)]
        else:
            attribute = KNOWN[path[: depth + 1]].attribute
            found = [((*place, part), getattr(value, attribute)) for place, value in found]
    return found


KNOWN: Final[Mapping[KeyPath, Key]] = known_keys(Settings)
"""Every key of the config by its path."""


def load_settings(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    **overrides: Mapping[str, object] | list[Mapping[str, object]],
) -> Settings:
    """Read and check all settings.

    The file is ``path``, else the one that ``DUETIME_CONFIG`` names, else ``./duetime.toml`` where there is one.
    ``overrides`` are sections (``store={"url": …}``) and come before the environment, which comes before files that
    the environment names, before the TOML file, before the defaults.
    Raises ``ConfigError`` with every problem that was found.
    """
    sources = gather(path, os.environ if environ is None else environ, KNOWN)
    settings, problems = _validated(sources, dict(overrides))
    problems = [*sources.problems, *problems]
    if settings is None or problems:
        raise ConfigError(problems)
    refused = unsupported(settings)
    if refused:
        raise ConfigError(refused)
    return settings


def _validated(sources: Sources, overrides: dict[str, Any]) -> tuple[Settings | None, list[str]]:
    # The caller raises: an error raised in here would carry the library's own, which repeats what it was given.
    token = _LAYERS.set((sources.environment, sources.secrets, sources.file))
    try:
        return Settings(**overrides), []
    except ValidationError as error:
        return None, sentences(error, KNOWN, sources.origins)
    finally:
        _LAYERS.reset(token)


def store_url(settings: Settings) -> URL:
    """Return the store's URL with the driver that duetime works with; it hides its password when printed."""
    return async_url(settings.store.url.get_secret_value())
