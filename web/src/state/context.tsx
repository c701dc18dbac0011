/** React context with the store and the actions. */

import { createContext, type ReactNode, use, useMemo, useSyncExternalStore } from "react";
import { type FileUrls, fileUrls } from "@/api/artifacts";
import type { FilesGateway } from "@/api/files";
import type { Gateway } from "@/api/gateway";
import { ApiError } from "@/api/http";
import { LanguageProvider } from "@/i18n/context";
import { preferredLanguage } from "@/i18n/i18n";
import type { Actions } from "@/state/actions/actions";
import type { Page, PageAction } from "@/state/page";
import type { Store } from "@/state/store";
import { FileUrlsProvider } from "@/ui/FileUrls";

interface App {
  readonly store: Store<Page, PageAction>;
  readonly actions: Actions;
  readonly gateway: Gateway;
  /** Missing for servers without uploads, suggestions and prompt rewriting. */
  readonly files?: FilesGateway;
  /** File URLs of a share link; missing on the owner's page. */
  readonly shared?: FileUrls;
}

const NO_FILES: FilesGateway = {
  uploadLimits: async () => null,
  upload: async () => Promise.reject(new ApiError("NotFound", 404, "")),
  deleteUpload: async () => {},
  uploads: async () => [],
  suggestions: async () => [],
  polish: async () => null,
};

const AppContext = createContext<App | null>(null);

export function AppProvider({ app, children }: { app: App; children: ReactNode }) {
  return (
    <AppContext value={app}>
      <PageContexts shared={app.shared}>{children}</PageContexts>
    </AppContext>
  );
}

/** Provides the language and the file URLs, which depend on the state of the page. */
function PageContexts({ shared, children }: { shared: FileUrls | undefined; children: ReactNode }) {
  const language = usePage(
    ({ preferences }) => preferences.language ?? preferredLanguage(navigator.languages),
  );
  const threadId = usePage((page) => page.threadId);
  const urls = useMemo(() => shared ?? fileUrls(threadId ?? ""), [shared, threadId]);
  return (
    <LanguageProvider language={language}>
      <FileUrlsProvider urls={urls}>{children}</FileUrlsProvider>
    </LanguageProvider>
  );
}

function useApp(): App {
  const app = use(AppContext);
  if (app === null) throw new Error("a component is used outside AppProvider");
  return app;
}

/** Select a slice of the state; `select` must return a stable reference. */
export function usePage<T>(select: (page: Page) => T): T {
  const { store } = useApp();
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}

/** Return a function that reads the state without rendering again when it changes. */
export function usePageState(): () => Page {
  return useApp().store.get;
}

export function useActions(): Actions {
  return useApp().actions;
}

export function useGateway(): Gateway {
  return useApp().gateway;
}

export function useFiles(): FilesGateway {
  return useApp().files ?? NO_FILES;
}

/** Return true on a shared, read-only page. */
export function useIsReader(): boolean {
  return useApp().shared !== undefined;
}
