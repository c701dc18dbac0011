"""The skills of everybody, as the configuration has them."""

from functools import partial
from pathlib import Path

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.config.extensions_file import change_extensions, with_skill
from deerflow.config.files import starting_in
from deerflow.config.source import ConfigSource
from deerflow.domain.principal import Principal
from deerflow.domain.usage import SKILL_REVIEW
from deerflow.harness.skill_trial import TrialInChild
from deerflow.runtime.side_calls import SideCalls, SideQuestion
from deerflow.skills.index import SkillIndex
from deerflow.skills.lock import LockWatch
from deerflow.skills.notices import open_notices
from deerflow.skills.review import Opinion, ReviewQuestion, SkillReviewer
from deerflow.skills.roots import shipped_root
from deerflow.skills.scanner.scanner import SkillScanner
from deerflow.skills.store import SkillStore
from deerflow.skills.workshop import Rules, SkillWorkshop


def open_skill_index(source: ConfigSource) -> SkillIndex:
    """What knows the skills; close it in the end."""
    loaded = source.current
    named = loaded.config.skills.path
    around = (loaded.config_file or loaded.extensions_file).parent
    shipped = starting_in(around, Path(named)) / "public" if named else shipped_root()

    def switches() -> dict[str, bool]:
        return {name: switch.enabled for name, switch in source.refresh().extensions.skills.items()}

    return SkillIndex(shipped, loaded.home, switches, open_notices(), LockWatch().look)


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
        )
    )
    return Opinion(answer.text, answer.reason)


def switch_skill(source: ConfigSource, name: str, enabled: bool) -> None:
    """Write down whether a skill of everybody is on.

    Raises:
        ConfigError: `extensions_config.json` is wrong or cannot be written.
    """
    loaded = source.current
    change = partial(with_skill, name=name, enabled=enabled)
    change_extensions(loaded.extensions_file, change, loaded.environment)
