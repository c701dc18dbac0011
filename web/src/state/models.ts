/** Queries of models and starters. */

import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import type { Gateway } from "@/api/gateway";
import type { ModelInfo, ModelsAnswer, Starter } from "@/api/wire";
import { useActions, useGateway, usePage } from "@/state/context";
import { IMMEDIATE, type LoadState, loadState } from "@/state/queries";

export const MODELS_KEY: readonly string[] = ["models"];

// While the page is in view.
const LOOK_AGAIN_MS = 15_000;

export function modelsQuery(gateway: Gateway) {
  return queryOptions({
    queryKey: MODELS_KEY,
    queryFn: () => gateway.models(),
    staleTime: Number.POSITIVE_INFINITY,
    // The configuration is usually changed in another window, or on the server.
    refetchOnWindowFocus: "always",
    refetchInterval: LOOK_AGAIN_MS,
    ...IMMEDIATE,
  });
}

/** Return the error in the server's configuration files, if there is one. */
export function useConfigProblem(): string | null {
  return useQuery(modelsQuery(useGateway())).data?.problem ?? null;
}

export function useModels(): LoadState<ModelsAnswer> & { readonly reload: () => void } {
  const query = useQuery(modelsQuery(useGateway()));
  return { ...loadState(query), reload: () => void query.refetch() };
}

/** Return the preferred model if it exists, else the server's default. */
export function selectModel(answer: ModelsAnswer | undefined, preferred: string | null): ModelInfo | null {
  if (answer === undefined) return null;
  const named = (name: string | null) => answer.models.find((model) => model.name === name);
  return named(preferred) ?? named(answer.default) ?? answer.models[0] ?? null;
}

export function useCurrentModel(): ModelInfo | null {
  const { data } = useQuery(modelsQuery(useGateway()));
  const preferred = usePage((page) => page.preferences.model);
  return useMemo(() => selectModel(data, preferred), [data, preferred]);
}

/** Say which model answers from now on, if the server changed it. */
export function useModelNotice(): void {
  const actions = useActions();
  const model = useCurrentModel();
  const preferred = usePage((page) => page.preferences.model);
  const last = useRef<{ readonly name: string; readonly preferred: string | null } | null>(null);
  useEffect(() => {
    if (model === null) return;
    const before = last.current;
    const name = modelName(model);
    last.current = { name, preferred };
    if (before !== null && before.name !== name && before.preferred === preferred)
      actions.notice({ kind: "nowAnswering", detail: name });
  }, [actions, model, preferred]);
}

const NO_STARTERS: readonly Starter[] = [];

/** Return the starters of the current model; they are optional, so errors are ignored. */
export function useStarters(): readonly Starter[] {
  const gateway = useGateway();
  const { isSuccess } = useQuery(modelsQuery(gateway));
  const model = useCurrentModel()?.name ?? null;
  const starters = useQuery({
    queryKey: ["starters", model],
    queryFn: () => gateway.starters(model),
    enabled: isSuccess,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    ...IMMEDIATE,
  });
  return starters.data ?? NO_STARTERS;
}

/** Return the name to show for the model of a run; the name itself if it is not configured any more. */
export function useModelName(name: string | null): string | null {
  const { data } = useQuery(modelsQuery(useGateway()));
  const known = data?.models.find((model) => model.name === name);
  return known === undefined ? name : modelName(known);
}

export function modelName(model: ModelInfo): string {
  return model.display_name ?? model.name;
}
