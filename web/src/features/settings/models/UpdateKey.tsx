/** Dialog that replaces the key of the connection a model belongs to. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { X } from "lucide-react";
import { KeyForm } from "@/features/settings/models/Connections";
import { connectionsQuery } from "@/features/settings/models/useConnections";
import { useStrings } from "@/i18n/context";
import { useFailureStrings } from "@/i18n/failures";
import { useModelName } from "@/state/models";
import { useServer } from "@/state/server";
import { buttonLook } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { IconButton } from "@/ui/IconButton";
import { LoadingState } from "@/ui/states";

interface Props {
  /** Name of the model. */
  readonly model: string;
  readonly onUpdated: () => void;
  readonly onClose: () => void;
}

export default function UpdateKey({ model, onUpdated, onClose }: Props) {
  const page = useStrings();
  const strings = useFailureStrings();
  const connections = useQuery(connectionsQuery(useServer()));
  const connection = connections.data?.find(({ models }) => models.some(({ name }) => name === model));
  const title = strings.keyOf(useModelName(model) ?? page.thisModel);
  return (
    <Dialog label={title} onClose={onClose} className="w-[min(30rem,96vw)]">
      <div className="flex h-12 shrink-0 items-center gap-2 border-b border-line pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate font-medium">{title}</h2>
        <IconButton icon={X} label={page.close} onClick={onClose} />
      </div>
      <div className="flex flex-col gap-3 p-4">
        {connections.isPending ? (
          <LoadingState />
        ) : connection === undefined ? (
          <>
            <p className="text-soft">{strings.keyInConfig}</p>
            <Link to="/settings" hash="models" onClick={onClose} className={`${buttonLook(true)} self-start`}>
              {strings.modelSettings}
            </Link>
          </>
        ) : (
          <>
            <p className="font-mono text-small text-faint [overflow-wrap:anywhere]">{connection.base_url}</p>
            <KeyForm
              connection={connection}
              onDone={() => {
                onClose();
                onUpdated();
              }}
              onCancel={onClose}
            />
          </>
        )}
      </div>
    </Dialog>
  );
}
