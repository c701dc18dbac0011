/** List of keyboard shortcuts. */

import { Fact, Section } from "@/features/settings/Section";
import { useStrings } from "@/i18n/context";
import { useWorkspaceParts } from "@/i18n/workspaceParts";
import { commandKey } from "@/ui/dom/commandKey";

export function KeyboardHelp() {
  const strings = useStrings();
  const parts = useWorkspaceParts();
  const command = commandKey(navigator.platform);
  const keys: readonly (readonly [readonly string[], string])[] = [
    [[command, "Shift", "O"], strings.newThread],
    [[command, "K"], strings.palette],
    [[command, "B"], strings.toggleList],
    [[command, "."], strings.togglePanel],
    [[command, "/"], strings.workspace.actions],
    [[command, "Shift", "L"], strings.share],
    [[command, "Shift", "Y"], parts.context],
    [[command, ","], strings.settings],
    [["/"], parts.writeMessage],
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
