/** Tools, resources and prompts of a server, shown as untrusted text. */

import { type ReactNode, useState } from "react";
import type { McpServer, McpTool } from "@/api/tools";
import { ToolTrial } from "@/features/tools/ToolTrial";
import { useToolStrings, useToolSwitch } from "@/features/tools/useTools";
import { sentence } from "@/i18n/i18n";
import { useTrialStrings } from "@/i18n/trials";
import { Button } from "@/ui/Button";
import { Switch } from "@/ui/Switch";

export function ServerCapabilities({ server }: { server: McpServer }) {
  const strings = useToolStrings();
  const { tools, resources, prompts, state } = server;
  return (
    <>
      {tools.length > 0 ? (
        <Group title={strings.tools}>
          {tools.map((tool) => (
            <ToolRow key={tool.name} server={server.name} tool={tool} />
          ))}
        </Group>
      ) : (
        state === "ready" && <p className="text-faint">{strings.noTools}</p>
      )}
      {resources.length > 0 && (
        <Group title={strings.resources}>
          {resources.map(({ uri, name, description }) => (
            <Row key={uri} name={name || uri} note={uri} description={description} />
          ))}
        </Group>
      )}
      {prompts.length > 0 && (
        <Group title={strings.prompts}>
          {prompts.map(({ name, description, arguments: given }) => (
            <Row key={name} name={name} note={given.join(", ")} description={description} />
          ))}
        </Group>
      )}
    </>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <h2 className="mb-2 text-title font-semibold">{title}</h2>
      <ul className="divide-y divide-line rounded-box border border-line">{children}</ul>
    </section>
  );
}

function ToolRow({ server, tool }: { server: string; tool: McpTool }) {
  const strings = useToolStrings();
  const words = useTrialStrings();
  const [trying, setTrying] = useState(false);
  const { flip, problem } = useToolSwitch(server, tool.name);
  return (
    <li className="px-4 py-2">
      <div className="flex items-center gap-3">
        <p className="flex min-w-0 flex-1 flex-wrap items-baseline gap-x-3">
          <code className="font-mono text-small font-medium [overflow-wrap:anywhere]">{tool.name}</code>
          {tool.title !== "" && tool.title !== tool.name && <span className="text-small">{tool.title}</span>}
          {tool.read_only === true && <span className="text-small text-faint">{strings.readOnly}</span>}
          {!tool.enabled && <span className="text-small text-warning">{words.toolOff}</span>}
        </p>
        <Button
          aria-expanded={trying}
          aria-label={trying ? undefined : words.tryThis(tool.name)}
          onClick={() => setTrying(!trying)}
        >
          {trying ? words.closeTrial : words.tryTool}
        </Button>
        <Switch on={tool.enabled} label={words.offer(tool.name)} onSwitch={flip} />
      </div>
      {problem !== null && (
        <p role="alert" className="text-small text-error">
          {strings.notSwitched} {sentence(problem)}
        </p>
      )}
      <p className="line-clamp-4 text-small whitespace-pre-wrap text-faint [overflow-wrap:anywhere]">
        {tool.description}
      </p>
      <details className="text-small">
        <summary className="cursor-pointer text-faint">{strings.schema}</summary>
        <pre className="mt-1 rounded-box bg-rail p-2 font-mono whitespace-pre-wrap [overflow-wrap:anywhere]">
          {JSON.stringify(tool.input_schema, null, 1)}
        </pre>
      </details>
      {trying && <ToolTrial server={server} tool={tool} />}
    </li>
  );
}

interface RowProps {
  readonly name: string;
  readonly note: string;
  readonly description: string;
}

function Row({ name, note, description }: RowProps) {
  return (
    <li className="px-4 py-2">
      <p className="flex flex-wrap items-baseline gap-x-3">
        <span className="[overflow-wrap:anywhere]">{name}</span>
        <code className="font-mono text-small text-faint [overflow-wrap:anywhere]">{note}</code>
      </p>
      <p className="line-clamp-3 text-small text-faint [overflow-wrap:anywhere]">{description}</p>
    </li>
  );
}
