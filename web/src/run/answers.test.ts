import { expect, test } from "vitest";
import { answerIn, answersText } from "@/run/answers";

const QUESTIONS = ["Who is it for?", "By when?", "How long?"];

test("answers are found again whatever they contain", () => {
  const text = answersText([
    { question: "Who is it for?", answer: "My team\n\nand By when?\nnobody else" },
    { question: "How long?", answer: "Two pages" },
  ]);
  expect(text).toBe("Who is it for?\n→ My team\n\nand By when?\nnobody else\n\nHow long?\n→ Two pages");
  expect(QUESTIONS.map((question) => answerIn(text, question, QUESTIONS))).toEqual([
    "My team\n\nand By when?\nnobody else",
    null,
    "Two pages",
  ]);
});

test("other text answers no question", () => {
  expect(answerIn("as you like", "By when?", QUESTIONS)).toBeNull();
});
