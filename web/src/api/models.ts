/** Connections to model providers. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type ModelProvider = Schemas["ModelProvider"];
export type ModelProviders = Schemas["ModelProviders"];
export type LocalModelServer = Schemas["LocalModelServer"];
export type ModelCheck = Schemas["ModelCheck"];
export type CheckedModel = Schemas["CheckedModel"];
export type ModelProblem = Schemas["ModelProblem"];
export type ModelConnection = Schemas["ModelConnectionInfo"];
export type EmbeddingModel = Schemas["EmbeddingModelInfo"];
export type EmbeddingCheck = Schemas["EmbeddingModelCheck"];
export type ChosenModel = Schemas["ChosenModel"];

/** Endpoint that the user has entered. */
export interface Endpoint {
  readonly provider: string;
  readonly base_url: string | null;
  /** Null: the saved key, or none. */
  readonly key: string | null;
}

export interface ModelsApi {
  modelProviders(): Promise<ModelProviders>;
  checkModels(endpoint: Endpoint, model: string | null): Promise<ModelCheck>;
  modelConnections(): Promise<readonly ModelConnection[]>;
  saveModels(endpoint: Endpoint, models: readonly ChosenModel[]): Promise<ModelConnection>;
  checkModelConnection(id: string): Promise<ModelCheck>;
  replaceModelKey(id: string, key: string): Promise<ModelConnection>;
  shareModelConnection(id: string, shared: boolean): Promise<ModelConnection>;
  removeModelConnection(id: string): Promise<void>;
  removeSavedModel(name: string): Promise<void>;
  embeddingModel(): Promise<EmbeddingModel>;
  checkEmbeddingModel(endpoint: Endpoint, model: string | null): Promise<EmbeddingCheck>;
  saveEmbeddingModel(endpoint: Endpoint, model: string | null): Promise<EmbeddingModel>;
  removeEmbeddingModel(): Promise<EmbeddingModel>;
}

const CONNECTIONS = "/api/model-connections";
const EMBEDDING = "/api/embedding-model";

export function modelsApi(fetch: Fetch): ModelsApi {
  const at = (id: string) => `${CONNECTIONS}/${encodeURIComponent(id)}`;
  return {
    modelProviders: () => requestJson(fetch, "/api/model-providers"),
    checkModels: (endpoint, model) =>
      requestJson(fetch, `${CONNECTIONS}/check`, jsonBody({ ...endpoint, model })),
    modelConnections: async () =>
      (await requestJson<Schemas["ModelConnectionList"]>(fetch, CONNECTIONS)).connections,
    saveModels: (endpoint, models) => requestJson(fetch, CONNECTIONS, jsonBody({ ...endpoint, models })),
    checkModelConnection: (id) => requestJson(fetch, `${at(id)}/check`, jsonBody({})),
    replaceModelKey: (id, key) => requestJson(fetch, `${at(id)}/key`, jsonBody({ key }, "PUT")),
    shareModelConnection: (id, shared) => requestJson(fetch, `${at(id)}/shared`, jsonBody({ shared }, "PUT")),
    async removeModelConnection(id) {
      await request(fetch, at(id), { method: "DELETE" });
    },
    async removeSavedModel(name) {
      const path = name.split("/").map(encodeURIComponent).join("/");
      await request(fetch, `/api/saved-models/${path}`, { method: "DELETE" });
    },
    embeddingModel: () => requestJson(fetch, EMBEDDING),
    checkEmbeddingModel: (endpoint, model) =>
      requestJson(fetch, `${EMBEDDING}/check`, jsonBody({ ...endpoint, model })),
    saveEmbeddingModel: (endpoint, model) =>
      requestJson(fetch, EMBEDDING, jsonBody({ ...endpoint, model }, "PUT")),
    removeEmbeddingModel: () => requestJson(fetch, EMBEDDING, { method: "DELETE" }),
  };
}
