/** Form for several questions, answered with one message. */

import { MessageCircleQuestionMark } from "lucide-react";
import { type FormEvent, useId, useState } from "react";
import { useStrings } from "@/i18n/context";
import { Markdown } from "@/markdown/Markdown";
import { answersText } from "@/run/answers";
import type { Question } from "@/run/question";
import { isActive } from "@/run/reduce";
import { useActions, usePage } from "@/state/context";
import { Button } from "@/ui/Button";
import { focusComposer } from "@/ui/dom/composerFocus";

export default function QuestionForm({ questions }: { questions: readonly Question[] }) {
  const strings = useStrings();
  const actions = useActions();
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const label = useId();
  const [answers, setAnswers] = useState<readonly string[]>([]);
  const answered = questions.flatMap(({ text }, place) => {
    const answer = answers[place]?.trim() ?? "";
    return answer === "" ? [] : [{ question: text, answer }];
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (answered.length === 0) return;
    // The form unmounts and would lose focus.
    focusComposer();
    void actions.send(answersText(answered));
  };
  return (
    <form
      onSubmit={submit}
      aria-labelledby={label}
      className="min-w-0 animate-appear overflow-hidden rounded-box border border-line-strong"
    >
      <div className="flex items-center gap-2 border-b border-line bg-rail px-3 py-2">
        <MessageCircleQuestionMark aria-hidden className="size-4 shrink-0 text-accent" />
        <span id={label} className="font-medium">
          {strings.questionsTitle(questions.length)}
        </span>
        <span className="ml-auto shrink-0 text-small text-faint tabular-nums">
          {strings.answered(answered.length, questions.length)}
        </span>
      </div>
      <fieldset disabled={active} aria-labelledby={label} className="min-w-0 divide-y divide-line">
        {questions.map((question, place) => (
          <Field
            key={question.text}
            question={question}
            answer={answers[place] ?? ""}
            onAnswer={(answer) =>
              setAnswers(questions.map((_, index) => (index === place ? answer : (answers[index] ?? ""))))
            }
          />
        ))}
      </fieldset>
      <div className="flex flex-wrap items-center gap-2 border-t border-line bg-rail px-3 py-2">
        <p className="min-w-0 flex-1 basis-60 text-small text-faint">{strings.questionsHint}</p>
        <Button type="submit" primary disabled={active || answered.length === 0}>
          {strings.sendAnswers}
        </Button>
      </div>
    </form>
  );
}

interface FieldProps {
  readonly question: Question;
  readonly answer: string;
  readonly onAnswer: (answer: string) => void;
}

function Field({ question: { text, context, options }, answer, onAnswer }: FieldProps) {
  const strings = useStrings();
  const label = useId();
  const typed = options.some(({ value }) => value === answer) ? "" : answer;
  return (
    <fieldset aria-labelledby={label} className="flex min-w-0 flex-col gap-2 px-3 py-3">
      <div>
        <div id={label} className="font-medium">
          <Markdown text={text} growing={false} />
        </div>
        {context !== "" && (
          <p className="mt-1 whitespace-pre-wrap text-soft [overflow-wrap:anywhere]">{context}</p>
        )}
      </div>
      {options.length > 0 && (
        <div className="flex flex-wrap gap-2">
          {options.map((option) => (
            <button
              key={option.id}
              type="button"
              aria-pressed={option.value === answer}
              onClick={() => onAnswer(option.value === answer ? "" : option.value)}
              className="max-w-full rounded-box border border-line-strong px-3 py-2 text-left text-ui [overflow-wrap:anywhere] hover:bg-tint aria-pressed:border-accent aria-pressed:bg-tint aria-pressed:font-medium"
            >
              {option.label}
            </button>
          ))}
        </div>
      )}
      <input
        value={typed}
        aria-label={options.length > 0 ? strings.otherAnswer : strings.yourAnswer}
        aria-describedby={label}
        placeholder={options.length > 0 ? strings.otherAnswer : strings.yourAnswer}
        onChange={(event) => onAnswer(event.target.value)}
        className="h-9 w-full rounded-box border border-line-strong bg-raised px-3 text-ui outline-none placeholder:text-faint focus:border-accent"
      />
    </fieldset>
  );
}
