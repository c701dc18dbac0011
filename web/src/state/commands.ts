/** Commands that the page handles itself. */

export const COMMANDS = ["compact", "goal", "model", "new"] as const;

export interface Command {
  readonly name: (typeof COMMANDS)[number];
  readonly rest: string;
}

const COMMAND = /^\/(compact|goal|model|new)(?:\s+([\s\S]*))?$/;

/** Parse a command; null if the text is a message. */
export function parseCommand(text: string): Command | null {
  const [, name, rest = ""] = COMMAND.exec(text.trim()) ?? [];
  return name === undefined ? null : { name: name as Command["name"], rest: rest.trim() };
}
