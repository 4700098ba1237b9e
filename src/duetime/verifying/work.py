"""Going through everything in pages, reading again what looks wrong, and telling what is left."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from duetime.clock import Clock, SystemClock
from duetime.errors import StoreConflict, StoreUnavailable
from duetime.order import OrderId
from duetime.shop import Asset
from duetime.verifying.assets import AssetJudge
from duetime.verifying.finding import Finding
from duetime.verifying.orders import OPEN_STATES, Terms, judge_order
from duetime.verifying.rows import AssetSnapshot, Books, DeliveryPage, Dossier, DossierPage, FactPage

T = TypeVar("T")

SUSPECTS_MAX = 10_000
"""Findings after which looking for more of them ends: whoever has so many needs no longer list."""

LOOK_AGAIN_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 8.0
PAUSES_SECONDS = (0.2, 1.0, 5.0, 10.0)
"""How long each further try of a page waits: a page reads nothing but one instant, so it can always be read anew."""

SWEEPS_MISSED = 3
"""Intervals without a sweep after which nobody is expected to follow what the shop does by itself."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How to verify.

    ``since``: only orders about which something was written since then, and those that hold something.
    ``patience``: how long what looks wrong may take to become right; None: until the next sweep has passed, where
    sweeps run at all. ``sweep_interval``: how often they do.
    """

    terms: Terms
    assets: Sequence[Asset]
    since: datetime | None = None
    patience: timedelta | None = None
    sweep_interval: timedelta = timedelta(seconds=60)
    page_size: int = 1000


@dataclass(slots=True)
class Verdict:
    """What was looked at, by name, and what does not add up. ``more``: there is more than was listed."""

    checked: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    more: bool = False


class Verifying:
    """Compares everything with everything else, from outside."""

    def __init__(self, books: Books, options: VerifyOptions, *, clock: Clock | None = None) -> None:
        """Read from ``books``; ``clock`` is for waiting only."""
        self._clock = clock or SystemClock()
        self._books = _Patient(books, self._clock)
        self._options = options
        self._progress: Callable[[Counter[str]], None] = _silent

    async def run(self, progress: Callable[[Counter[str]], None] | None = None) -> Verdict:
        """Look at everything once, and at what looks wrong again."""
        self._progress = progress or _silent
        verdict = Verdict(Counter(orders=0, facts=0, payments=0, holds=0))
        suspects: dict[str, Finding] = {}
        await self._orders(verdict, suspects)
        wrong = await self._assets(verdict, suspects)
        await self._failures(verdict, suspects)
        astray = await self._deliveries(verdict)
        if suspects or wrong or astray:
            patience = await self._patience()
            suspects = await self._again(suspects, patience)
            wrong = await self._assets_again(wrong, waited=bool(suspects), patience=patience)
            astray = await self._deliveries_again(astray)
        found = [*suspects.values(), *wrong, *astray]
        verdict.more = len(found) >= SUSPECTS_MAX
        verdict.findings = found[:SUSPECTS_MAX]
        return verdict

    # The first look

    async def _orders(self, verdict: Verdict, suspects: dict[str, Finding]) -> None:
        if self._options.since is not None:
            await self._orders_since(verdict, suspects, self._options.since)
            return
        page = await self._books.orders_page(None, self._options.page_size)
        while True:
            self._judge(page, verdict, suspects)
            if page.last is None or len(suspects) >= SUSPECTS_MAX:
                return
            page = await self._books.orders_page(page.last, self._options.page_size)

    async def _orders_since(self, verdict: Verdict, suspects: dict[str, Finding], since: datetime) -> None:
        start = await self._books.first_fact_since(since)
        while start is not None and len(suspects) < SUSPECTS_MAX:
            page = await self._books.facts_page(start, self._options.page_size)
            self._judge(await self._books.dossiers(page.order_nos), verdict, suspects)
            start = None if page.last is None else page.last + 1

    async def _failures(self, verdict: Verdict, suspects: dict[str, Finding]) -> None:
        """Failures that wait may be about orders that no other page names."""
        order_nos = await self._books.waiting_failures(SUSPECTS_MAX)
        for n in range(0, len(order_nos), self._options.page_size):
            page = await self._books.dossiers(order_nos[n : n + self._options.page_size])
            self._judge(page, Verdict(), suspects)
        verdict.checked["failures"] += len(order_nos)

    def _judge(self, page: DossierPage, verdict: Verdict, suspects: dict[str, Finding]) -> None:
        for dossier in page.dossiers:
            _count(dossier, verdict.checked)
            for finding in judge_order(dossier, page.now, self._options.terms):
                suspects[f"{finding.kind} {finding.about}"] = finding
        self._progress(verdict.checked)

    async def _assets(self, verdict: Verdict, suspects: dict[str, Finding]) -> list[Finding]:
        """Compare holds with assets; a snapshot that is lost is taken anew, and what it counted with it."""
        before = Counter(verdict.checked)

        async def compared() -> list[Finding]:
            verdict.checked = Counter(before)
            return await self._assets_at_once(verdict, suspects)

        return await self._books.patiently(compared)

    async def _assets_at_once(self, verdict: Verdict, suspects: dict[str, Finding]) -> list[Finding]:
        """Compare holds with assets in one snapshot; on the way, see to orders that nothing else leads to."""
        judge, found = AssetJudge(self._options.assets), []
        async with self._books.asset_snapshot() as snapshot:
            async for holds in snapshot.holds(self._options.page_size):
                judge.count(holds)
                verdict.checked["holds"] += len(holds)
                holding = list(dict.fromkeys(hold.order_no for hold in holds if hold.state in OPEN_STATES))
                await self._holding(snapshot, holding, verdict, suspects)
                self._progress(verdict.checked)
            for asset in self._options.assets:
                if asset.storage != "remote":
                    found += await self._asset(snapshot, asset.kind, judge, verdict)
        return found[:SUSPECTS_MAX]

    async def _holding(
        self, snapshot: AssetSnapshot, order_nos: list[str], verdict: Verdict, suspects: dict[str, Finding]
    ) -> None:
        if not order_nos:
            return
        if self._options.since is not None:
            self._judge(await self._books.dossiers(order_nos), verdict, suspects)
            return
        missing = await snapshot.missing_orders(order_nos)
        if missing:
            self._judge(await self._books.dossiers(sorted(missing)), Verdict(), suspects)

    async def _asset(
        self, snapshot: AssetSnapshot, kind: str, judge: AssetJudge, verdict: Verdict
    ) -> list[Finding]:  # fmt: skip
        found: list[Finding] = []
        refs = judge.held_refs(kind)
        for n in range(0, len(refs), self._options.page_size):
            judge.respell(kind, await snapshot.spelled(kind, refs[n : n + self._options.page_size]))
        async for rows in snapshot.assets(kind, self._options.page_size):
            found += judge.judge(kind, rows)
            verdict.checked[kind] += len(rows)
            self._progress(verdict.checked)
            if len(found) >= SUSPECTS_MAX:
                return found
        return [*found, *judge.gone(kind)]

    async def _deliveries(self, verdict: Verdict) -> list[Finding]:
        found: list[Finding] = []
        after: tuple[str, int] | None = None
        while len(found) < SUSPECTS_MAX:
            page = await self._books.deliveries_page(after, self._options.page_size)
            verdict.checked["deliveries"] += page.looked_at
            found += [_astray(consumer, seq) for consumer, seq in page.astray]
            self._progress(verdict.checked)
            if page.last is None:
                break
            after = page.last
        return found

    # The second look

    async def _patience(self) -> timedelta:
        if self._options.patience is not None:
            return self._options.patience
        last, interval = await self._books.last_sweep(), self._options.sweep_interval
        if last is None or await self._books.now() - last > SWEEPS_MISSED * interval + timedelta(seconds=5):
            return timedelta(seconds=LOOK_AGAIN_SECONDS)
        return interval + timedelta(seconds=5)

    async def _again(self, suspects: dict[str, Finding], patience: timedelta) -> dict[str, Finding]:
        """Read orders that looked wrong again and again, until they are right or the patience is over."""
        ends, pause = self._clock.monotonic() + patience.total_seconds(), LOOK_AGAIN_SECONDS
        while suspects:
            left = ends - self._clock.monotonic()
            await self._clock.sleep(max(0.0, min(pause, left)))
            suspects = await self._still(suspects)
            if left <= pause:
                break
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return suspects

    async def _still(self, suspects: dict[str, Finding]) -> dict[str, Finding]:
        order_nos, found = sorted({finding.order_no for finding in suspects.values()}), dict[str, Finding]()
        for n in range(0, len(order_nos), self._options.page_size):
            page = await self._books.dossiers(order_nos[n : n + self._options.page_size])
            self._judge(page, Verdict(), found)
        return {key: finding for key, finding in found.items() if key in suspects}

    async def _assets_again(self, wrong: list[Finding], *, waited: bool, patience: timedelta) -> list[Finding]:
        if not wrong:
            return []
        if not waited:
            await self._clock.sleep(patience.total_seconds())
        before = {finding.key for finding in wrong}
        return [finding for finding in await self._assets(Verdict(), {}) if finding.key in before]

    async def _deliveries_again(self, astray: list[Finding]) -> list[Finding]:
        before = {finding.key for finding in astray}
        return [finding for finding in await self._deliveries(Verdict()) if finding.key in before] if before else []


class _Patient:
    """Books whose pages are read again where the connection was lost."""

    def __init__(self, books: Books, clock: Clock) -> None:
        self._books = books
        self._clock = clock
        self.asset_snapshot = books.asset_snapshot

    async def patiently(self, read: Callable[[], Awaitable[T]]) -> T:
        for pause in PAUSES_SECONDS:
            try:
                return await read()
            except (StoreUnavailable, StoreConflict):
                await self._clock.sleep(pause)
        return await read()

    async def orders_page(self, after: OrderId | None, limit: int) -> DossierPage:
        return await self.patiently(lambda: self._books.orders_page(after, limit))

    async def dossiers(self, order_nos: Sequence[str]) -> DossierPage:
        return await self.patiently(lambda: self._books.dossiers(order_nos))

    async def first_fact_since(self, at: datetime) -> int | None:
        return await self.patiently(lambda: self._books.first_fact_since(at))

    async def facts_page(self, start: int, limit: int) -> FactPage:
        return await self.patiently(lambda: self._books.facts_page(start, limit))

    async def waiting_failures(self, limit: int) -> Sequence[str]:
        return await self.patiently(lambda: self._books.waiting_failures(limit))

    async def deliveries_page(self, after: tuple[str, int] | None, limit: int) -> DeliveryPage:
        return await self.patiently(lambda: self._books.deliveries_page(after, limit))

    async def last_sweep(self) -> datetime | None:
        return await self.patiently(self._books.last_sweep)

    async def now(self) -> datetime:
        return await self.patiently(self._books.now)


def _astray(consumer: str, seq: int) -> Finding:
    return Finding(
        "delivery-without-fact",
        f"delivery {seq} to {consumer}",
        f"there is no fact {seq} in duetime_outbox",
        "a fact for every delivery",
        "delete this row of duetime_delivery, and see who deletes from duetime_outbox",
    )


def _count(dossier: Dossier, checked: Counter[str]) -> None:
    checked["orders"] += dossier.order is not None
    checked["facts"] += len(dossier.facts)
    checked["payments"] += len(dossier.payments)


def _silent(_counts: Counter[str]) -> None:
    pass
