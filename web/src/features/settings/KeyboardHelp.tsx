/** List of keyboard shortcuts. */

import { Fact, Section } from "@/features/settings/Section";
import { useStrings } from "@/i18n/context";
import { commandKey } from "@/ui/dom/commandKey";

export function KeyboardHelp() {
  const strings = useStrings();
  const command = commandKey(navigator.platform);
  const keys: readonly (readonly [readonly string[], string])[] = [
    [[command, "Shift", "O"], strings.newThread],
    [[command, "K"], strings.palette],
    [[command, "B"], strings.toggleList],
    [[command, "."], strings.togglePanel],
    [["Enter"], strings.keySend],
    [["Shift", "Enter"], strings.keyNewline],
    [["↑"], strings.keyEditLast],
    [["Esc"], strings.keyStop],
    [["?"], strings.keyboard],
  ];
  return (
    <Section title={strings.keyboard} anchor="keyboard">
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
