/** Formats answers to several questions as one message. */

const ARROW = "\n→ ";
const BETWEEN = "\n\n";

export interface Answered {
  readonly question: string;
  readonly answer: string;
}

export function answersText(answered: readonly Answered[]): string {
  return answered.map(({ question, answer }) => `${question}${ARROW}${answer}`).join(BETWEEN);
}

/** Return the answer to a question in `text`, null if there is none. */
export function answerIn(text: string, question: string, questions: readonly string[]): string | null {
  const start = placeOf(text, question);
  if (start === null) return null;
  const begin = start + question.length + ARROW.length;
  const others = questions.flatMap((other) => placeOf(text, other) ?? []).filter((place) => place > start);
  return text.slice(begin, others.length === 0 ? undefined : Math.min(...others) - BETWEEN.length);
}

function placeOf(text: string, question: string): number | null {
  const head = `${question}${ARROW}`;
  if (text.startsWith(head)) return 0;
  const place = text.indexOf(`${BETWEEN}${head}`);
  return place < 0 ? null : place + BETWEEN.length;
}
