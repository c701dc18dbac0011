/** Form that adds servers of a pasted configuration: a preview, problems per entry; rejected text is kept. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { McpConfig, McpEntry, PastedServer } from "@/api/tools";
import { changedNames } from "@/features/tools/entry";
import { isTemplate, TEMPLATE_NAMES, templateText } from "@/features/tools/templates";
import { SERVERS, useServerChange, useToolStrings } from "@/features/tools/useTools";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useTrialStrings } from "@/i18n/trials";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";
import { Field } from "@/ui/fields";

interface Props {
  /** Entries before the import. */
  readonly known: McpConfig["mcp_servers"];
  readonly onCancel: () => void;
}

const EXAMPLE = `{
  "mcpServers": {
    "time": {
      "command": "uvx",
      "args": ["mcp-server-time"]
    }
  }
}`;
const PAUSE_MS = 300;

export function PasteForm({ known, onCancel }: Props) {
  const page = useStrings();
  const strings = useToolStrings();
  const words = useTrialStrings();
  const server = useServer();
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [unticked, setUnticked] = useState<readonly string[]>([]);
  const checked = useSettled(text);
  const preview = useQuery({
    queryKey: [...SERVERS, "preview", checked],
    queryFn: () => server.previewMcpServers(checked),
    enabled: checked.trim() !== "",
    placeholderData: keepPreviousData,
    retry: false,
    gcTime: 0,
  });
  const importing = useServerChange((names: readonly string[] | null) =>
    server.importMcpServers(text, names),
  );
  const isCurrent = checked === text && preview.isSuccess && !preview.isPlaceholderData;
  const found = text.trim() !== "" && preview.isSuccess ? preview.data : [];
  const chosen = found.filter(({ name, problem }) => problem === null && !unticked.includes(name));
  const show = async ({ mcp_servers: servers }: McpConfig) => {
    const [name, ...others] = changedNames(known, servers);
    if (name === undefined || others.length > 0) await navigate({ to: "/tools" });
    else await navigate({ to: "/tools/$server", params: { server: name } });
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        importing.mutate(isCurrent ? chosen.map(({ name }) => name) : null, { onSuccess: show });
      }}
      className="flex flex-col gap-4"
    >
      {(text === "" || isTemplate(text)) && (
        <fieldset className="flex flex-wrap items-center gap-2">
          <legend className="mb-2 font-medium">{words.startFrom}</legend>
          {TEMPLATE_NAMES.map((name) => (
            <Button key={name} onClick={() => setText(templateText(name))}>
              {words.templates[name]}
            </Button>
          ))}
        </fieldset>
      )}
      <Field name={strings.configuration} hint={strings.configurationHint}>
        {(ids) => (
          <textarea
            {...ids}
            value={text}
            rows={10}
            spellCheck={false}
            placeholder={EXAMPLE}
            onChange={(event) => setText(event.target.value)}
            className="field-sizing-content max-h-[60dvh] min-h-52 resize-none rounded-box border border-line-strong bg-raised px-3 py-2 font-mono text-small outline-none placeholder:text-faint focus:border-accent"
          />
        )}
      </Field>
      {found.length > 0 && (
        <Preview
          servers={found}
          chosen={chosen.map(({ name }) => name)}
          onTick={(name, on) =>
            setUnticked((before) => (on ? before.filter((each) => each !== name) : [...before, name]))
          }
        />
      )}
      {preview.isError && !importing.isError && text.trim() !== "" && (
        <p role="status" className="text-small whitespace-pre-wrap text-error [overflow-wrap:anywhere]">
          {sentence(preview.error.message)}
        </p>
      )}
      {importing.isError && (
        <p
          role="alert"
          className="rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error [overflow-wrap:anywhere]"
        >
          {strings.notAdded} {sentence(importing.error.message)}
        </p>
      )}
      <div className="flex gap-2">
        <Button
          type="submit"
          primary
          disabled={importing.isPending || text.trim() === "" || (isCurrent && chosen.length === 0)}
        >
          {isCurrent && chosen.length > 0 ? words.addSome(chosen.length) : strings.addAll}
        </Button>
        <Button onClick={onCancel}>{page.cancel}</Button>
      </div>
    </form>
  );
}

/** Return a text once nobody has typed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

interface PreviewProps {
  readonly servers: readonly PastedServer[];
  readonly chosen: readonly string[];
  readonly onTick: (name: string, on: boolean) => void;
}

function Preview({ servers, chosen, onTick }: PreviewProps) {
  const words = useTrialStrings();
  return (
    <section aria-label={words.preview}>
      <h2 className="mb-2 font-medium">{words.preview}</h2>
      <ul className="divide-y divide-line rounded-box border border-line">
        {servers.map(({ name, entry, replaces, problem }) => (
          <li key={name} className="flex items-start gap-3 px-4 py-3">
            <input
              type="checkbox"
              aria-label={words.include(name)}
              checked={chosen.includes(name)}
              disabled={problem !== null}
              onChange={(event) => onTick(name, event.target.checked)}
              className="mt-0.5 size-4 shrink-0 accent-accent"
            />
            <div className="min-w-0 flex-1">
              <p className="flex flex-wrap items-baseline gap-x-3">
                <span className="font-medium [overflow-wrap:anywhere]">{name}</span>
                {replaces && <span className="text-small text-warning">{words.replaces}</span>}
              </p>
              {describe(entry).map((line) => (
                <p key={line} className="font-mono text-small text-faint [overflow-wrap:anywhere]">
                  {line}
                </p>
              ))}
              {problem !== null && (
                <p className="text-small text-error [overflow-wrap:anywhere]">
                  {sentence(problem.replace(`${name}.`, ""))}
                </p>
              )}
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Return an entry in lines: the command or URL, then variables and headers. The server has masked secrets. */
function describe(entry: McpEntry): readonly string[] {
  const args = Array.isArray(entry.args) ? entry.args : [];
  const target = entry.command === undefined ? [entry.url] : [entry.command, ...args];
  const pairs = (values: unknown, sign: string) =>
    Object.entries(values ?? {}).map(([name, value]) => `${name}${sign}${String(value)}`);
  return [
    target.filter((part) => part != null).join(" "),
    ...pairs(entry.env, "="),
    ...pairs(entry.headers, ": "),
  ];
}
