"""A fact is found by any of the words it is asked for with, in other forms too, in any script, the best fact first."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from deerflow.domain.memory import upsert_fact
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries.search import COMMON_TERM_FACTS, build_fts5_query
from deerflow.persistence.queries.tokenizer import MAX_TERMS, find_stem, parse_terms
from tests.memory.support import SCOPE, list_contents, make_fact

FACTS = [
    "Prefers PostgreSQL over MySQL for new services",
    "Deploys every Friday with GitHub Actions",
    "Is allergic to peanuts and shellfish",
    "Writes documentation in British English",
    "Has two children, Emma and Noah",
    "喜欢喝乌龙茶，不喝咖啡",
    "在上海的一家银行工作",
    "Uses parse_configFile from the internal toolkit",
    "Works on the new project with the team from Oslo",
    "Works on the old project with the team from Rome",
]
QUESTIONS = {
    "which database do they prefer, postgresql?": 0,
    "how is the deployment done": 1,
    "any allergies to shellfish when cooking for the user": 2,
    "document written in which kind of english": 3,
    "names of the kids emma": 4,
    "他喜欢喝什么茶": 5,
    "用户在哪家银行上班": 6,
    "茶": 5,
    "configFile": 7,
    "what do they work on with the people in Rome": 9,
}


async def test_finds_facts_by_paraphrased_questions(ledger: Ledger) -> None:
    await ledger.apply(SCOPE, [upsert_fact(make_fact(content)) for content in FACTS], "import")
    first = {question: [hit.fact.content for hit in await ledger.search(SCOPE, question)][:1] for question in QUESTIONS}
    assert first == {question: [FACTS[number]] for question, number in QUESTIONS.items()}
    for nothing in ("", "  ?!", "zzz", "'); DROP TABLE memory_facts; --", '" OR *', "\0"):
        assert await ledger.search(SCOPE, nothing) == []


async def test_filters_by_category_and_current_facts(ledger: Ledger) -> None:
    tea, goal = make_fact("Likes tea"), make_fact("Wants to grow tea", "goal")
    changes = await ledger.apply(SCOPE, [upsert_fact(tea), upsert_fact(goal)], "user")
    assert [hit.fact for hit in await ledger.search(SCOPE, "tea", 1)] != []
    assert [hit.fact for hit in await ledger.search(SCOPE, "tea", category="goal")] == [goal]
    assert [each.content for each in await ledger.read_top_facts(SCOPE, 5, ["preference"])] == ["Likes tea"]
    await ledger.undo(SCOPE, changes[1].change_id)
    assert [hit.fact for hit in await ledger.search(SCOPE, "grow tea")] == [tea]
    assert await ledger.count_facts(SCOPE) == 1 and list_contents(await ledger.read_state(SCOPE)) == ["Likes tea"]


@given(some.text(max_size=300))
@example("a" * 300)
@example(" ".join(f"word{number}" for number in range(100)))
def test_parses_any_query(question: str) -> None:
    wanted = parse_terms(question)
    assert len(wanted) <= MAX_TERMS and all(each.text and '"' not in each.text for each in wanted)
    assert build_fts5_query(wanted).count('"') == 2 * len(wanted)


@pytest.mark.parametrize(
    ("one", "other"),
    [("deploying", "deployment"), ("prefers", "preference"), ("preferred", "prefer"), ("allergies", "allergic")],
)
def test_finds_the_stem_of_inflected_forms(one: str, other: str) -> None:
    assert other.startswith(find_stem(one)) or one.startswith(find_stem(other))


async def test_ignores_frequent_terms(ledger: Ledger) -> None:
    planted = make_fact("Runs the heron project")
    many = [upsert_fact(make_fact(f"Project {number} is done")) for number in range(COMMON_TERM_FACTS + 1)]
    await ledger.apply(SCOPE, [upsert_fact(planted), *many], "import")
    assert [hit.fact for hit in await ledger.search(SCOPE, "which project is about herons", 5)][:1] == [planted]
    assert len(await ledger.search(SCOPE, "projects", 7)) == 7
