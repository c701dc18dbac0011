/** Dialog that connects a model: choose a provider, enter the key, check, save. */

import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import type { LocalModelServer, ModelConnection, ModelProvider } from "@/api/models";
import { EndpointForm } from "@/features/settings/models/EndpointForm";
import { ProviderChoice } from "@/features/settings/models/ProviderChoice";
import { connectionsQuery, providersQuery, useModelStrings } from "@/features/settings/models/useConnections";
import { useStrings } from "@/i18n/context";
import { useServer } from "@/state/server";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { ErrorState, LoadingState } from "@/ui/states";

interface Props {
  /** Connection to add models to; null to choose a provider. */
  readonly connectionId: string | null;
  readonly onClose: () => void;
}

/** Provider with what is known about the endpoint. */
export interface Choice {
  readonly provider: ModelProvider;
  readonly address: string;
  readonly key: string;
  /** Check at once: the key or the server was recognised. */
  readonly isComplete: boolean;
  readonly hasSavedKey: boolean;
}

export default function ConnectDialog({ connectionId, onClose }: Props) {
  const page = useStrings();
  const strings = useModelStrings();
  return (
    <Dialog label={strings.title} onClose={onClose} className="max-h-[92dvh] w-[min(44rem,96vw)]">
      <div className="flex h-12 shrink-0 items-center gap-2 border-b border-line pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate font-medium">{strings.title}</h2>
        <IconButton icon={X} label={page.close} onClick={onClose} />
      </div>
      <Steps connectionId={connectionId} onClose={onClose} />
    </Dialog>
  );
}

function Steps({ connectionId, onClose }: Props) {
  const strings = useModelStrings();
  const server = useServer();
  const providers = useQuery(providersQuery(server));
  const connections = useQuery({ ...connectionsQuery(server), enabled: connectionId !== null });
  const [chosen, setChosen] = useState<Choice | null>(null);
  if (providers.isError) {
    return <ErrorState text={strings.providersUnavailable} onRetry={() => void providers.refetch()} />;
  }
  if (providers.data === undefined || (connectionId !== null && connections.isPending))
    return <LoadingState />;
  const connection = connections.data?.find((each) => each.connection_id === connectionId) ?? null;
  const all = providers.data.providers;
  const choice = chosen ?? choiceOf(connection, all);
  if (choice === null) {
    const chooseLocal = ({ provider, base_url }: LocalModelServer) => {
      const known = all.find(({ id }) => id === provider);
      if (known)
        setChosen({ provider: known, address: base_url, key: "", isComplete: true, hasSavedKey: false });
    };
    return <ProviderChoice providers={providers.data} onChoose={setChosen} onChooseLocal={chooseLocal} />;
  }
  return (
    <EndpointForm
      key={choice.provider.id}
      choice={choice}
      onBack={connection === null ? () => setChosen(null) : null}
      onClose={onClose}
    />
  );
}

function choiceOf(connection: ModelConnection | null, providers: readonly ModelProvider[]): Choice | null {
  const provider = providers.find(({ id }) => id === connection?.provider);
  if (connection === null || provider === undefined) return null;
  const hasSavedKey = connection.key === "set";
  return { provider, address: connection.base_url, key: "", isComplete: hasSavedKey, hasSavedKey };
}
