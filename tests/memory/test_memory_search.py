"""A fact is found by any of the words it is asked for with, in other forms too, in any script, the best fact first."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from deerflow.domain.memory import knowing
from deerflow.memory.ledger import Ledger
from deerflow.persistence.memory_search import COMMON, MOST_WORDS, fts5_any, stem_of, words_wanted
from tests.memory.notes import MINE, contents, fact

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


async def test_paraphrased_questions_find_the_fact(ledger: Ledger) -> None:
    await ledger.apply(MINE, [knowing(fact(content)) for content in FACTS], "import")
    first = {question: [hit.fact.content for hit in await ledger.search(MINE, question)][:1] for question in QUESTIONS}
    assert first == {question: [FACTS[number]] for question, number in QUESTIONS.items()}
    for nothing in ("", "  ?!", "zzz", "'); DROP TABLE memory_facts; --", '" OR *', "\0"):
        assert await ledger.search(MINE, nothing) == []


async def test_search_keeps_to_a_category_and_to_what_is_known_now(ledger: Ledger) -> None:
    tea, goal = fact("Likes tea"), fact("Wants to grow tea", "goal")
    changes = await ledger.apply(MINE, [knowing(tea), knowing(goal)], "user")
    assert [hit.fact for hit in await ledger.search(MINE, "tea", 1)] != []
    assert [hit.fact for hit in await ledger.search(MINE, "tea", category="goal")] == [goal]
    assert [each.content for each in await ledger.leading(MINE, 5, ["preference"])] == ["Likes tea"]
    await ledger.undo(MINE, changes[1].change_id)
    assert [hit.fact for hit in await ledger.search(MINE, "grow tea")] == [tea]
    assert await ledger.count(MINE) == 1 and contents(await ledger.state(MINE)) == ["Likes tea"]


@given(some.text(max_size=300))
@example("a" * 300)
@example(" ".join(f"word{number}" for number in range(100)))
def test_whatever_is_asked_becomes_a_query(question: str) -> None:
    wanted = words_wanted(question)
    assert len(wanted) <= MOST_WORDS and all(each.word and '"' not in each.word for each in wanted)
    assert fts5_any(wanted).count('"') == 2 * len(wanted)


@pytest.mark.parametrize(
    ("one", "other"),
    [("deploying", "deployment"), ("prefers", "preference"), ("preferred", "prefer"), ("allergies", "allergic")],
)
def test_forms_of_a_word_begin_alike(one: str, other: str) -> None:
    assert other.startswith(stem_of(one)) or one.startswith(stem_of(other))


async def test_a_word_in_most_facts_does_not_hide_the_one_that_tells(ledger: Ledger) -> None:
    planted = fact("Runs the heron project")
    many = [knowing(fact(f"Project {number} is done")) for number in range(COMMON + 1)]
    await ledger.apply(MINE, [knowing(planted), *many], "import")
    assert [hit.fact for hit in await ledger.search(MINE, "which project is about herons", 5)][:1] == [planted]
    assert len(await ledger.search(MINE, "projects", 7)) == 7
