"""Where custom skills are made and changed, as the configuration has it."""

from functools import partial

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.config.source import ConfigSource
from deerflow.domain.principal import Principal
from deerflow.domain.usage import SKILL_REVIEW
from deerflow.harness.skill_trial import TrialInChild
from deerflow.runtime.side_calls import SideCalls, SideQuestion
from deerflow.skills.index import SkillIndex
from deerflow.skills.review import Opinion, ReviewQuestion, SkillReviewer
from deerflow.skills.scanner.scanner import SkillScanner
from deerflow.skills.store import SkillStore
from deerflow.skills.workshop import Rules, SkillWorkshop


def make_workshop(source: ConfigSource, calls: SideCalls, index: SkillIndex) -> SkillWorkshop:
    """Where custom skills are made and changed."""
    store = SkillStore(source.current.home, lambda owner: tuple(index.current(owner).skills.values()))
    reviewer = SkillReviewer(partial(ask_for_review, source, calls))
    trial = TrialInChild(source.current)
    return SkillWorkshop(store, SkillScanner(), reviewer, partial(workshop_rules, source), trial)


def workshop_rules(source: ConfigSource) -> Rules:
    """How carefully skills are looked at, as the configuration is now."""
    config = source.refresh().config
    return Rules(scans=config.skill_scan.enabled, fails_closed=config.skill_evolution.security_fail_closed)


async def ask_for_review(source: ConfigSource, calls: SideCalls, question: ReviewQuestion) -> Opinion:
    """Put a question to the model that reviews skills."""
    settings = source.refresh().config.skill_evolution
    messages = [SystemMessage(question.instructions), HumanMessage(question.skill)]
    answer = await calls.ask(
        SideQuestion(
            SKILL_REVIEW,
            messages,
            settings.moderation_model_name,
            settings.timeout_seconds,
            Principal(question.owner),
            question.thread_id,
            budget=question.budget,
        )
    )
    return Opinion(answer.text, answer.reason)
