/** Form that adds all servers of a pasted configuration; rejected text is kept. */

import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { McpConfig } from "@/api/tools";
import { changedNames } from "@/features/tools/entry";
import { useServerChange, useToolStrings } from "@/features/tools/useTools";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
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

export function PasteForm({ known, onCancel }: Props) {
  const page = useStrings();
  const strings = useToolStrings();
  const server = useServer();
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const importing = useServerChange((text: string) => server.importMcpServers(text));
  const show = async ({ mcp_servers: servers }: McpConfig) => {
    const [name, ...others] = changedNames(known, servers);
    if (name === undefined || others.length > 0) await navigate({ to: "/tools" });
    else await navigate({ to: "/tools/$server", params: { server: name } });
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        importing.mutate(text, { onSuccess: show });
      }}
      className="flex flex-col gap-4"
    >
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
      {importing.isError && (
        <p
          role="alert"
          className="rounded-box bg-error-tint px-3 py-2 whitespace-pre-wrap text-error [overflow-wrap:anywhere]"
        >
          {strings.notAdded} {sentence(importing.error.message)}
        </p>
      )}
      <div className="flex gap-2">
        <Button type="submit" primary disabled={importing.isPending || text.trim() === ""}>
          {strings.addAll}
        </Button>
        <Button onClick={onCancel}>{page.cancel}</Button>
      </div>
    </form>
  );
}
