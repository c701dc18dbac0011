/** Keys, and what they do. */

import { useWords } from "@/app/context";
import { Fact, Section } from "@/features/settings/Section";
import { commandKey } from "@/ui/commandKey";

export function KeyboardHelp() {
  const words = useWords();
  const command = commandKey(navigator.platform);
  const keys: readonly (readonly [readonly string[], string])[] = [
    [[command, "K"], words.palette],
    [[command, "B"], words.toggleList],
    [[command, "."], words.togglePanel],
    [["Enter"], words.keySend],
    [["Shift", "Enter"], words.keyNewline],
    [["↑"], words.keyEditLast],
    [["Esc"], words.keyStop],
  ];
  return (
    <Section title={words.keyboard}>
      {keys.map(([pressed, meaning]) => (
        <Fact key={meaning} name={meaning}>
          <span className="flex gap-1">
            {pressed.map((key) => (
              <kbd
                key={key}
                className="rounded-box border border-line-strong bg-rail px-2 py-0.5 font-mono text-small"
              >
                {key}
              </kbd>
            ))}
          </span>
        </Fact>
      ))}
    </Section>
  );
}
