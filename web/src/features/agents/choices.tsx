/** Ticks for the tools and skills of an agent; none chosen by name means all. */

import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { useAgentStrings } from "@/i18n/agents";
import { useServer } from "@/state/server";

type Chosen = readonly string[] | null;

interface ChoiceProps {
  readonly value: Chosen;
  readonly onChoose: (value: Chosen) => void;
}

export function ToolChoice({ value, onChoose }: ChoiceProps) {
  const strings = useAgentStrings();
  const server = useServer();
  const tools = useQuery({ queryKey: ["tools"], queryFn: server.tools });
  const servers = useQuery({ queryKey: ["mcp", "servers"], queryFn: server.mcpServers });
  const groups = (tools.data ?? []).flatMap(({ group }) => (group === null ? [] : [group]));
  const offered = [...groups, ...(servers.data ?? []).map(({ name }) => `mcp:${name}`)];
  const toolsIn = (group: string) =>
    (tools.data ?? []).filter((tool) => tool.group === group).map(({ name }) => name);
  return (
    <Ticks
      title={strings.tools}
      all={strings.allTools}
      hint={strings.allToolsHint}
      none={strings.noTools}
      problem={tools.isError ? strings.toolsUnavailable : null}
      ready={tools.isSuccess && !servers.isPending}
      value={value}
      options={[...new Set([...offered, ...(value ?? [])])].map((group) => ({
        name: group,
        label: groupLabel(group, strings),
        note: toolsIn(group).slice(0, MAX_NAMED).join(", "),
      }))}
      defaults={[...new Set(offered)]}
      onChoose={onChoose}
    />
  );
}

const MAX_NAMED = 4;

function groupLabel(group: string, strings: ReturnType<typeof useAgentStrings>): string {
  const known = strings.groups[group];
  if (known !== undefined) return known;
  return group.startsWith("mcp:") ? strings.serverGroup(group.slice("mcp:".length)) : group;
}

export function SkillChoice({ value, onChoose }: ChoiceProps) {
  const strings = useAgentStrings();
  const server = useServer();
  const list = useQuery({ queryKey: ["skills"], queryFn: server.skills });
  const skills = list.data?.skills ?? [];
  const known = skills.map(({ name }) => name);
  const lost = (value ?? []).filter((name) => !known.includes(name));
  return (
    <Ticks
      title={strings.skills}
      all={strings.allSkills}
      hint={strings.allSkillsHint}
      none={strings.noSkills}
      problem={list.isError ? strings.skillsUnavailable : null}
      ready={list.isSuccess}
      value={value}
      options={[
        ...skills.map(({ name, enabled }) => ({ name, label: name, note: enabled ? "" : strings.off })),
        ...lost.map((name) => ({ name, label: name, note: list.isSuccess ? strings.missing : "" })),
      ]}
      defaults={skills.filter(({ enabled }) => enabled).map(({ name }) => name)}
      onChoose={onChoose}
    />
  );
}

interface Option {
  readonly name: string;
  readonly label: string;
  readonly note: string;
}

interface TicksProps extends ChoiceProps {
  readonly title: string;
  readonly all: string;
  readonly hint: string;
  readonly none: string;
  readonly problem: string | null;
  /** The options are known. */
  readonly ready: boolean;
  readonly options: readonly Option[];
  /** Ticked when somebody begins to choose. */
  readonly defaults: readonly string[];
}

function Ticks({ title, all, hint, none, problem, ready, options, defaults, value, onChoose }: TicksProps) {
  const hintId = useId();
  return (
    <fieldset className="flex flex-col gap-1">
      <legend className="mb-1 font-medium">{title}</legend>
      <label className="flex items-center gap-2">
        <input
          type="checkbox"
          checked={value === null}
          disabled={value === null && !ready}
          aria-describedby={hintId}
          onChange={(event) => onChoose(event.target.checked ? null : defaults)}
          className="size-4 accent-accent"
        />
        {all}
      </label>
      <p id={hintId} className="text-small text-faint empty:hidden">
        {value === null ? hint : value.length === 0 && none}
      </p>
      {problem !== null && (
        <p role="alert" className="text-small text-error">
          {problem}
        </p>
      )}
      {value !== null && (
        <ul className="mt-1 grid max-h-72 gap-x-4 gap-y-1 overflow-y-auto rounded-box border border-line p-3 wide:grid-cols-2">
          {options.map(({ name, label, note }) => (
            <li key={name}>
              <label className="flex min-h-6 items-start gap-2">
                <input
                  type="checkbox"
                  checked={value.includes(name)}
                  onChange={(event) =>
                    onChoose(
                      event.target.checked ? [...value, name] : value.filter((chosen) => chosen !== name),
                    )
                  }
                  className="mt-0.5 size-4 shrink-0 accent-accent"
                />
                <span className="min-w-0">
                  <span className="[overflow-wrap:anywhere]">{label}</span>
                  {note !== "" && (
                    <span className="block truncate font-mono text-small text-faint">{note}</span>
                  )}
                </span>
              </label>
            </li>
          ))}
        </ul>
      )}
    </fieldset>
  );
}
