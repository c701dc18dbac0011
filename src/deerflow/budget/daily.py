"""Spending of people by day: every model call is reserved in the database, which all runs and processes share."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial, reduce
from typing import Any, Protocol

from deerflow.budget.account import Account, Amount, BudgetTracker, Prices, ReservationEntry, format_limit
from deerflow.config.sections.models import PricingConfig
from deerflow.domain.usage import (
    BudgetSpent,
    ModelBudget,
    ModelCallRequest,
    ModelCallUsage,
    QuotaSpent,
    Reservation,
    SpendingLimit,
)

FindLimit = Callable[[str], Awaitable[SpendingLimit]]
"""Returns the current limit of a person."""
MAX_REFUSALS = 50
"""Number of times that other processes may be faster with the rest of a quota before a call is given up."""


class SpendingLedger(Protocol):
    """Spent and reserved amounts by person and day, which all processes share."""

    async def add(
        self, owner: str, day: date, released: Amount, wanted: Amount, limit: SpendingLimit
    ) -> tuple[bool, Amount]:
        """Subtract `released`, then add `wanted` if it fits the limit, in one transaction.

        Return whether it was added, and the amount of the day.
        """
        ...


class LedgerRefused(Exception):
    """Other processes have reserved more than was known here."""


class DailyAccount:
    """Account of one person on one day, shared by the runs of this process."""

    def __init__(self, owner: str, day: date, ledger: SpendingLedger, prices: Prices) -> None:
        self.day = day
        self._owner = owner
        self._ledger = ledger
        self._account = Account()
        self._limit = SpendingLimit()
        self._tracker = BudgetTracker(self._limit, self._account, prices, self, reserves_final_answer=True)
        self._stored: dict[int, Amount] = {}
        """Reservations in the database, by call number."""
        self._released = Amount()
        """Amount that settled calls did not use, and that is still in the database."""
        self._lock = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()
        self._is_known = False

    async def reserve_call(self, asking: ModelCallRequest, limit: SpendingLimit) -> Reservation:
        """Reserve the maximum of a call; wait for active calls if only their reservations are in the way.

        Raises:
            QuotaSpent: Too little is left of the day.
            ConfigError: The price of the model is unknown.
        """
        self._limit = limit
        self._tracker.change_limit(limit)
        if not self._is_known:
            await self.update()
        for _ in range(MAX_REFUSALS):
            try:
                grant = await self._tracker.reserve(asking)
            except LedgerRefused:
                continue
            except BudgetSpent:
                before = self._account.spent
                await self.update()  # another process may have used less than it had reserved
                if self._account.spent.tokens < before.tokens or self._account.spent.cost < before.cost:
                    continue
                break
            self._account.has_final_answer = False  # every run may have one
            return grant
        raise QuotaSpent(f"your quota of {format_limit(limit)} for today does not pay for another model call")

    def settle_call(self, grant: Reservation, answered: ModelCallUsage | None, *, is_rejected: bool = False) -> None:
        """Replace the reservation of a call by its real usage."""
        self._tracker.settle(grant, answered, is_rejected=is_rejected)

    def get_final_call_limits(self, model: str) -> tuple[int, int] | None:
        """Return the maximum size of a final request and answer."""
        return self._tracker.get_final_call_limits(model)

    def get_remaining(self) -> SpendingLimit:
        """Return what is neither spent nor reserved, as far as it is known here."""
        return self._tracker.get_remaining()

    async def update(self) -> None:
        """Write what was released, and read what other processes have spent."""
        await asyncio.shield(self._begin(self._write(Amount())))

    async def reserve(self, entry: ReservationEntry) -> None:
        """Store a reservation, as `ReservationLog` asks.

        Raises:
            LedgerRefused: It does not fit any more.
        """
        write = self._begin(self._write(entry.amount, entry.grant.number))
        try:
            await asyncio.shield(write)
        except asyncio.CancelledError:
            write.add_done_callback(lambda _: self._release(entry.grant.number, Amount()))
            raise

    def settle(self, entry: ReservationEntry) -> None:
        """Store the real usage of a call eventually. Until then the whole reservation counts."""
        self._release(entry.grant.number, entry.amount)

    async def aclose(self) -> None:
        """Write what was released."""
        while self._writes:
            await asyncio.wait(set(self._writes))

    def _release(self, number: int, used: Amount) -> None:
        reserved = self._stored.pop(number, None)
        if reserved is None or reserved == used:
            return
        has_begun = self._released != Amount()
        self._released += Amount(reserved.tokens - used.tokens, reserved.cost - used.cost)
        if not has_begun:
            self._begin(self._write(Amount()))

    def _begin(self, write: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # is raised where the write is awaited; what was not written counts as spent

    async def _write(self, wanted: Amount, number: int | None = None) -> None:
        async with self._lock:
            released, self._released = self._released, Amount()
            is_added, total = await self._ledger.add(self._owner, self.day, released, wanted, self._limit)
            if is_added and number is not None:
                self._stored[number] = wanted
            # Calls that have settled during the write are in the total with their whole reservations.
            known = sum(self._stored.values(), self._released)
            self._account.spent = Amount(total.tokens - known.tokens, total.cost - known.cost)
            self._is_known = True
            if not is_added and number is not None:
                raise LedgerRefused


@dataclass
class DailyBudgets:
    """Accounts of the people whose runs this process executes."""

    ledger: SpendingLedger
    find_limit: FindLimit
    prices: Callable[[str], Mapping[str, PricingConfig]]
    """Returns the current prices for a person by model name."""
    now: Callable[[], datetime] = partial(datetime.now, UTC)
    _accounts: dict[str, DailyAccount] = field(default_factory=dict)

    async def open(self, owner: str) -> tuple[DailyAccount, SpendingLimit] | None:
        """Return the account of a person for today, with the limit; None if they have no limit."""
        limit = await self.find_limit(owner)
        if not limit.is_set:
            return None
        account, today = self._accounts.get(owner), self.now().date()
        if account is None or account.day != today:
            account = self._accounts[owner] = DailyAccount(owner, today, self.ledger, partial(self.prices, owner))
        return account, limit

    async def wrap(self, owner: str, own: ModelBudget | None) -> ModelBudget | None:
        """Return the budget of a run or side call of a person: its own, and the quota of the person if there is one."""
        if isinstance(own, PersonalBudget) or await self.open(owner) is None:
            return own
        return PersonalBudget(self, owner, own)

    async def aclose(self) -> None:
        """Write what is left to write."""
        for account in self._accounts.values():
            await account.aclose()


@dataclass(frozen=True, slots=True)
class PersonalCall:
    """Reservations of a call: in the budget of its run, and in the account of the person."""

    own: Reservation | None
    daily: tuple[DailyAccount, Reservation] | None


@dataclass
class PersonalBudget:
    """Budget of a run, or of a call outside of runs, of a person who has a quota."""

    budgets: DailyBudgets
    owner: str
    own: ModelBudget | None
    """Budget of the run itself, if it has one."""
    _calls: dict[int, PersonalCall] = field(default_factory=dict)
    _number: int = 0
    _account: DailyAccount | None = None

    async def reserve(self, request: ModelCallRequest) -> Reservation:
        """Reserve budget for a call, first of the run and then of the person."""
        own = await self.own.reserve(request) if self.own is not None else None
        try:
            daily = await self._reserve_daily(request, own)
        except BaseException:
            if self.own is not None and own is not None:
                self.own.settle(own, None, is_rejected=True)
            raise
        grant = daily[1] if daily is not None else own
        self._number += 1
        self._calls[self._number] = PersonalCall(own, daily)
        if grant is None:  # the quota was lifted meanwhile
            return Reservation(self._number, request, request.prompt.bytes, request.max_output_tokens)
        return replace(grant, number=self._number, request=request)

    async def _reserve_daily(
        self, request: ModelCallRequest, own: Reservation | None
    ) -> tuple[DailyAccount, Reservation] | None:
        opened = await self.budgets.open(self.owner)
        if opened is None:
            return None
        self._account, limit = opened
        most = own.output_tokens if own is not None else request.max_output_tokens
        asking = replace(request, max_output_tokens=most, min_output_tokens=min(most, request.min_output_tokens))
        return self._account, await self._account.reserve_call(asking, limit)

    def settle(self, reservation: Reservation, usage: ModelCallUsage | None, *, is_rejected: bool = False) -> None:
        """Charge the actual usage of a call."""
        call = self._calls.pop(reservation.number)
        if self.own is not None and call.own is not None:
            self.own.settle(call.own, usage, is_rejected=is_rejected)
        if call.daily is not None:
            call.daily[0].settle_call(call.daily[1], usage, is_rejected=is_rejected)

    def get_final_call_limits(self, model: str) -> tuple[int, int] | None:
        """Return the maximum size of the final request and answer; None if the run has had its final answer."""
        found = [each.get_final_call_limits(model) for each in (self.own, self._account) if each is not None]
        limits = [each for each in found if each is not None]
        if not limits or len(limits) < len(found):
            return None
        return min(each[0] for each in limits), min(each[1] for each in limits)

    def get_remaining(self) -> SpendingLimit:
        """Return what is neither spent nor reserved."""
        left = [each.get_remaining() for each in (self.own, self._account) if each is not None]
        return reduce(SpendingLimit.cap, left) if left else SpendingLimit()
