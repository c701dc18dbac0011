/** First step: a key whose provider is recognised, or the tile of a provider. */

import { Cpu, Globe } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { LocalModelServer, ModelProvider, ModelProviders } from "@/api/models";
import type { Choice } from "@/features/settings/models/ConnectDialog";
import { useModelStrings } from "@/features/settings/models/useConnections";
import { focusOnMount } from "@/ui/dom/focusOnMount";
import { Field, INPUT } from "@/ui/fields";

interface Props {
  readonly providers: ModelProviders;
  readonly onChoose: (choice: Choice) => void;
  readonly onChooseLocal: (server: LocalModelServer) => void;
}

const LOCAL: readonly string[] = ["ollama", "lmstudio", "vllm"];
const CUSTOM = "custom";
/** Shorter texts are typed, not pasted. */
const MIN_KEY_CHARS = 16;

export function ProviderChoice({ providers: { providers, local }, onChoose, onChooseLocal }: Props) {
  const strings = useModelStrings();
  const [key, setKey] = useState("");
  const [isUnknown, setUnknown] = useState(false);
  const choose = (provider: ModelProvider, given: string, isComplete: boolean) =>
    onChoose({ provider, address: provider.base_url ?? "", key: given, isComplete, hasSavedKey: false });
  const recognise = (text: string) => {
    const given = text.trim();
    const provider = providerOf(given, providers);
    if (provider === null) setUnknown(given.length >= MIN_KEY_CHARS);
    else if (given.length >= MIN_KEY_CHARS) choose(provider, given, true);
  };
  const remote = providers.filter(({ id }) => !LOCAL.includes(id) && id !== CUSTOM);
  const custom = providers.find(({ id }) => id === CUSTOM);
  return (
    <div className="flex flex-col gap-5 overflow-y-auto p-4">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          recognise(key);
        }}
      >
        <Field name={strings.anyKey} hint={isUnknown ? strings.unknownKey : strings.anyKeyHint}>
          {(ids) => (
            <input
              ref={focusOnMount}
              {...ids}
              type="password"
              autoComplete="off"
              value={key}
              onChange={(event) => {
                setKey(event.target.value);
                // A pasted key is complete at once.
                if (event.target.value.length - key.length >= MIN_KEY_CHARS) recognise(event.target.value);
              }}
              className={`${INPUT} font-mono`}
            />
          )}
        </Field>
      </form>
      {local.length > 0 && (
        <Tiles title={strings.onThisMachine}>
          {local.map((server) => (
            <Tile
              key={server.base_url}
              mark={<Cpu aria-hidden className="size-4" />}
              title={server.title}
              note={strings.modelCount(server.model_count)}
              onChoose={() => onChooseLocal(server)}
            />
          ))}
        </Tiles>
      )}
      <Tiles title={strings.providers}>
        {remote.map((provider) => (
          <Tile
            key={provider.id}
            mark={provider.title.slice(0, 1)}
            title={provider.title}
            onChoose={() => choose(provider, key.trim(), key.trim() !== "")}
          />
        ))}
        {custom && (
          <Tile
            mark={<Globe aria-hidden className="size-4" />}
            title={strings.custom}
            wide
            note={strings.customHint}
            onChoose={() => choose(custom, key.trim(), false)}
          />
        )}
      </Tiles>
    </div>
  );
}

/** Return the only provider whose keys begin like this one. */
export function providerOf(key: string, providers: readonly ModelProvider[]): ModelProvider | null {
  return providers.find(({ key_prefixes }) => key_prefixes.some((prefix) => key.startsWith(prefix))) ?? null;
}

function Tiles({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="flex flex-col gap-2">
      <h3 className="text-small font-medium text-soft">{title}</h3>
      <div className="grid grid-cols-[repeat(auto-fill,minmax(9.5rem,1fr))] gap-2">{children}</div>
    </section>
  );
}

interface TileProps {
  readonly mark: ReactNode;
  readonly title: string;
  readonly note?: string;
  readonly wide?: boolean;
  readonly onChoose: () => void;
}

function Tile({ mark, title, note, wide = false, onChoose }: TileProps) {
  return (
    <button
      type="button"
      onClick={onChoose}
      className={`flex min-h-14 items-center gap-3 rounded-box border border-line bg-raised px-3 py-2 text-left hover:border-line-strong hover:bg-tint ${wide ? "col-span-2" : ""}`}
    >
      <span
        aria-hidden
        className="flex size-7 shrink-0 items-center justify-center rounded-full bg-tint-strong text-small font-semibold text-soft"
      >
        {mark}
      </span>
      <span className="min-w-0">
        <span className="block font-medium [overflow-wrap:anywhere]">{title}</span>
        {note !== undefined && <span className="block text-small text-faint">{note}</span>}
      </span>
    </button>
  );
}
