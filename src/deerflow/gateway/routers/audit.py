"""Audit log: /audit, for administrators, and /v1/auth/admin-access, with the entries that concern a user."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.responses import StreamingResponse

from deerflow.gateway.dependencies import CurrentAdmin, CurrentUser, HarnessDep
from deerflow.gateway.routers.accounts import NO_STORE
from deerflow.gateway.schemas.accounts import FromAccounts
from deerflow.memory.document import to_utc
from deerflow.persistence.queries.audit import AuditEntry, AuditFilter
from deerflow.services.audit import AuditReport, parse_head

router = APIRouter()

MAX_ACCESSES = 100


class AuditPerson(BaseModel):
    """User in an audit entry; the address is null if the account was deleted."""

    id: str
    email: str | None

    @classmethod
    def find(cls, user_id: str | None, emails: Mapping[str, str]) -> "AuditPerson | None":
        """Return a user of an entry."""
        return None if user_id is None else cls(id=user_id, email=emails.get(user_id))


class AuditEntryInfo(BaseModel):
    """Audit entry: `actor` (null: the server, the terminal or an unknown person) did something to `subject`'s data."""

    seq: int
    at: datetime
    kind: str
    actor: AuditPerson | None
    subject: AuditPerson | None
    outcome: str
    details: dict[str, str]
    is_erased: bool
    """The details were erased, because a person of the entry was deleted."""

    @classmethod
    def from_domain(cls, entry: AuditEntry, emails: Mapping[str, str]) -> "AuditEntryInfo":
        return cls(
            seq=entry.seq,
            at=entry.at,
            kind=entry.kind,
            actor=AuditPerson.find(entry.actor, emails),
            subject=AuditPerson.find(entry.subject, emails),
            outcome=entry.outcome,
            details=read_details(entry),
            is_erased=entry.is_erased,
        )


class AuditPage(BaseModel):
    """Audit entries, newest first; `next` is `before` of the next page, null after the last."""

    entries: list[AuditEntryInfo]
    next: int | None

    @classmethod
    def from_domain(cls, found: Sequence[AuditEntry], emails: Mapping[str, str], limit: int) -> "AuditPage":
        shown = [AuditEntryInfo.from_domain(each, emails) for each in found]
        return cls(entries=shown, next=found[-1].seq if len(found) == limit else None)


class AuditHeadInfo(BaseModel):
    """Head of the audit log, as SEQ:HASH."""

    head: str


class AuditProblemInfo(FromAccounts):
    """Place at which the audit log was changed."""

    seq: int
    reason: str


class AuditVerification(BaseModel):
    """Result of a verification: whether nothing was changed, and the first problems."""

    is_valid: bool
    entries: int
    head: str
    problems: list[AuditProblemInfo]

    @classmethod
    def from_domain(cls, report: AuditReport) -> "AuditVerification":
        problems = [AuditProblemInfo.model_validate(each) for each in report.problems]
        return cls(is_valid=report.is_valid, entries=report.entries, head=str(report.head), problems=problems)


class AdminAccess(BaseModel):
    """Read of a thread of the current user by an administrator."""

    at: datetime
    by: str | None
    """E-mail address of the administrator; null if the account was deleted."""
    thread_id: str | None
    reason: str | None

    @classmethod
    def from_domain(cls, entry: AuditEntry, emails: Mapping[str, str]) -> "AdminAccess":
        details = read_details(entry)
        by = emails.get(entry.actor) if entry.actor else None
        return cls(at=entry.at, by=by, thread_id=details.get("thread"), reason=details.get("reason"))


@router.get("/v1/auth/admin-access", tags=["accounts"], summary="List reads of your threads by administrators")
async def list_admin_access(user: CurrentUser, harness: HarnessDep) -> list[AdminAccess]:
    """List when administrators have read threads of the current user, newest first, each with the reason."""
    log = harness.resources.audit
    found = await log.list(AuditFilter(subject=user.user_id, kind="data.thread_read"), limit=MAX_ACCESSES)
    emails = await log.find_emails(found)
    return [AdminAccess.from_domain(each, emails) for each in found]


@router.get("/audit", tags=["audit"], summary="List audit entries")
async def list_audit_entries(
    user: CurrentAdmin,
    harness: HarnessDep,
    person: Annotated[str | None, Query(max_length=64, description="Id of a user: who did it, or whose it is.")] = None,
    kind: Annotated[str | None, Query(max_length=48, description="Kind, as account.login, or group: account.")] = None,
    before: Annotated[int | None, Query(ge=1, lt=2**62, description="`next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> AuditPage:
    """List the entries of the audit log, newest first."""
    log = harness.resources.audit
    found = await log.list(AuditFilter(person=person, kind=kind), before, limit)
    return AuditPage.from_domain(found, await log.find_emails(found), limit)


@router.get("/audit/head", tags=["audit"], summary="Get the head of the audit log")
async def get_audit_head(user: CurrentAdmin, harness: HarnessDep) -> AuditHeadInfo:
    """Return number and hash of the last entry. Keep it elsewhere: with it, a verification finds truncation too."""
    return AuditHeadInfo(head=str(await harness.resources.audit.read_head()))


@router.get("/audit/verify", tags=["audit"], summary="Verify the audit log")
async def verify_audit_log(
    user: CurrentAdmin,
    harness: HarnessDep,
    head: Annotated[str | None, Query(max_length=100, description="A head that was kept, as SEQ:HASH.")] = None,
) -> AuditVerification:
    """Verify the hash chain of all entries."""
    anchor = parse_head(head) if head else None
    return AuditVerification.from_domain(await harness.resources.audit.verify(anchor))


@router.get(
    "/audit/export",
    tags=["audit"],
    summary="Export the audit log",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"example": '{"seq":1,"kind":"account.created"}'}}}},
)
async def export_audit_log(
    user: CurrentAdmin,
    harness: HarnessDep,
    since: Annotated[datetime | None, Query(alias="from", description="Time of the first entry.")] = None,
    until: Annotated[datetime | None, Query(alias="to", description="Time before which the last entry is.")] = None,
) -> StreamingResponse:
    """Export entries as JSON lines, oldest first."""
    wanted = AuditFilter(since=since and to_utc(since), until=until and to_utc(until))
    headers = {**NO_STORE, "Content-Disposition": 'attachment; filename="audit.jsonl"'}
    return StreamingResponse(harness.resources.audit.export(wanted), headers=headers, media_type="application/x-ndjson")


def read_details(entry: AuditEntry) -> dict[str, str]:
    """Return the details of an entry; empty if they are damaged."""
    try:
        return TypeAdapter(dict[str, str]).validate_json(entry.details or "{}")
    except ValidationError:
        return {}
