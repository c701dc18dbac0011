/** A clarification question. Options are shortcuts; the composer accepts any answer. */

import { Check, MessageCircleQuestionMark } from "lucide-react";
import { useId } from "react";
import { useStrings } from "@/i18n/context";
import { Markdown } from "@/markdown/Markdown";
import type { Option, Question } from "@/run/question";
import { isActive } from "@/run/reduce";
import { useActions, useIsReader, usePage } from "@/state/context";
import { focusComposer } from "@/ui/dom/composerFocus";

interface Props {
  readonly question: Question;
  /** The answer; undefined if open, null if the agent continued without one. */
  readonly reply: string | null | undefined;
}

export default function QuestionBlock({ question, reply }: Props) {
  const strings = useStrings();
  const active = usePage(({ conversation }) => isActive(conversation.run));
  const label = useId();
  const reader = useIsReader();
  const waits = reply === undefined && !reader;
  const { text, context, options } = question;
  return (
    <fieldset
      aria-labelledby={label}
      className={`relative flex min-w-0 flex-col gap-3 rounded-box border py-3 pr-4 pl-10 ${waits ? "border-line-strong" : "border-line"}`}
    >
      <MessageCircleQuestionMark
        aria-hidden
        className={`absolute top-4 left-3 size-4 ${waits ? "text-accent" : "text-faint"}`}
      />
      <div>
        <div id={label} className="font-medium">
          <Markdown text={text} growing={false} />
        </div>
        {context !== "" && (
          <p className="mt-1 whitespace-pre-wrap text-soft [overflow-wrap:anywhere]">{context}</p>
        )}
      </div>
      {options.length > 0 && (
        <ul className="flex flex-wrap gap-2">
          {options.map((option) => (
            <li key={option.id} className="max-w-full">
              <OptionButton option={option} chosen={option.value === reply} dead={!waits || active} />
            </li>
          ))}
        </ul>
      )}
      {waits && (
        <p className="text-small text-faint">
          {options.length > 0 ? strings.chooseHint : strings.answerHint}
        </p>
      )}
    </fieldset>
  );
}

interface OptionProps {
  readonly option: Option;
  readonly chosen: boolean;
  readonly dead: boolean;
}

function OptionButton({ option, chosen, dead }: OptionProps) {
  const strings = useStrings();
  const actions = useActions();
  const choose = () => {
    // The buttons become disabled and would lose focus.
    focusComposer();
    void actions.send(option.value);
  };
  return (
    <button
      type="button"
      onClick={choose}
      disabled={dead}
      aria-label={chosen ? strings.chosen(option.label) : undefined}
      className={`flex items-center gap-2 rounded-box border px-3 py-2 text-left text-ui [overflow-wrap:anywhere] enabled:hover:bg-tint ${
        chosen ? "border-accent/60 text-ink" : "border-line enabled:border-line-strong disabled:text-faint"
      }`}
    >
      {chosen && <Check aria-hidden className="size-4 shrink-0 text-accent" />}
      {option.label}
    </button>
  );
}
