"""Ranking of passages by their best sentence."""

from dataclasses import replace

import pytest

from deerflow.domain.projects import PassageHit
from deerflow.models.embeddings import WordLlamaEmbedder
from deerflow.projects.ranking import fuse_rankings, rank_passages


def make_hit(number: int, text: str, file_name: str = "notes.md") -> PassageHit:
    return PassageHit(number, f"f{number}", file_name, "line", number, 1, text)


def find_best(query: str, *texts: str) -> str:
    return rank_passages(query, [make_hit(number, text) for number, text in enumerate(texts)])[0].text


def test_a_query_without_words_keeps_the_order() -> None:
    hits = [make_hit(1, "b"), make_hit(2, "a")]
    assert rank_passages("?!", hits) == hits
    assert rank_passages("the", []) == []


def test_words_in_one_sentence_are_better_than_the_same_words_in_several() -> None:
    apart = "The Amber pump was photographed. Parcels weigh more. The lift was painted."
    together = "The lift was photographed. The Amber pump was painted last summer. Parcels weigh more."
    assert find_best("Who painted the Amber pump?", apart, together) == together


def test_inflected_and_irregular_forms_match() -> None:
    said = ("The Oak ferry was shown to visitors.", "The Oak ferry consumes little.", "Somebody bought the Oak ferry.")
    assert find_best("consumption of the Oak ferry", *said) == said[1]
    assert find_best("Did we buy the Oak ferry?", *said) == said[2]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the Oak ferry ready?", "The Oak ferry went to sea in March 2024."),
        ("Who looks after the Oak ferry?", "The Oak ferry belongs to Lena Novak."),
        ("Where do I find the Oak ferry?", "The Oak ferry lies near Turku."),
        ("How heavy is the Oak ferry?", "The Oak ferry comes to 900 kg."),
        ("How expensive was the Oak ferry?", "The Oak ferry came to 900 euros."),
        ("Why is the Oak ferry in the dock?", "The Oak ferry stays because of the storm."),
        ("Oak ferry 是什么颜色？", "The Oak ferry is green."),
    ],
)
def test_a_sentence_with_the_kind_of_answer_is_preferred(question: str, answer: str) -> None:
    others = ("The Oak ferry is in the newsletter.", "The Oak ferry was mentioned twice.", "The Oak ferry has a model.")
    assert find_best(question, *others, answer) == answer


def test_a_line_that_goes_on_in_lower_case_is_one_sentence() -> None:
    wrapped = "The Amber pump\nwas painted green.\nParcels are heavy."
    apart = "The Amber pump.\nThe lift was painted green."
    assert find_best("Is the Amber pump painted?", apart, wrapped) == wrapped


def test_words_of_the_file_name_count() -> None:
    hits = [make_hit(1, "The pump is red.", "a.md"), make_hit(2, "The pump is red.", "budget.md")]
    assert rank_passages("pump in the budget", hits)[0].file_name == "budget.md"


def test_words_of_the_headings_above_count_less_than_those_of_the_sentence() -> None:
    below = replace(make_hit(1, "It is serviced every ten weeks."), headings="Machines › Amber pump")
    elsewhere = replace(make_hit(2, "It is serviced every nine weeks."), headings="Machines › Oak ferry")
    named = make_hit(3, "The Amber pump is serviced every week.")
    assert rank_passages("How often is the Amber pump serviced?", [elsewhere, below, named]) == [
        named,
        below,
        elsewhere,
    ]


def test_a_sentence_before_tells_what_the_next_is_about() -> None:
    right = "The Amber pump came last year. It is serviced every ten weeks."
    wrong = "The Oak ferry came last year. It is serviced every nine weeks."
    assert find_best("How often is the Amber pump serviced?", wrong, right) == right


def test_a_local_embedding_model_finds_related_words() -> None:
    texts = (
        "The Amber pump is shown in the hall.",
        "Visitors photographed the Amber pump.",
        "They approved the budget of the Amber pump.",
    )
    hits = [make_hit(number, text) for number, text in enumerate(texts)]
    embedder = WordLlamaEmbedder.create()
    assert rank_passages("authorise spending on the Amber pump", hits, compare=embedder.compare)[0].text == texts[2]


def test_a_passage_with_a_similar_vector_and_no_word_of_the_question_is_found() -> None:
    hits = [
        make_hit(number, text) for number, text in enumerate(("The lift is red.", "Parcels weigh more.", "It rains."))
    ]
    assert rank_passages("weather", hits, {0: 0.1, 1: 0.0, 2: 0.8})[0].text == "It rains."


def test_a_passage_with_all_words_stays_among_the_first_though_another_looks_like_an_answer() -> None:
    about = "Visitors of the northern hall wear an orange lanyard. The hall has a visitor book for lanyards."
    others = [f"The lanyard number {number} costs {number} euros since 20{number}." for number in range(10, 16)]
    hits = [make_hit(number, text) for number, text in enumerate((*others, about))]
    assert about in [hit.text for hit in rank_passages("When do visitors of the hall wear a lanyard?", hits)[:2]]


def test_an_item_in_both_rankings_is_better_than_the_first_of_one() -> None:
    assert fuse_rankings([(1.0, [1, 2, 3]), (1.0, [4, 3])])[0] == 3
    assert fuse_rankings([(1.0, [1]), (2.0, [2])]) == [2, 1]
