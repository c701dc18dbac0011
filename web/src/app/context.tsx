/** How components reach the store, the actions and the words. */

import {
  createContext,
  type ReactNode,
  use,
  useEffect,
  useMemo,
  useState,
  useSyncExternalStore,
} from "react";
import { type Addresses, addressesOf } from "@/api/artifacts";
import type { FilesGateway } from "@/api/files";
import { Refused } from "@/api/http";
import type { Actions } from "@/app/actions";
import type { Page, PageAction } from "@/app/page";
import type { Store } from "@/app/store";
import { DICTIONARIES, type Language, preferredLanguage, type Strings } from "@/i18n/i18n";

interface App {
  readonly store: Store<Page, PageAction>;
  readonly actions: Actions;
  /** Missing: a server without files, suggestions and help with writing. */
  readonly files?: FilesGateway;
  /** Where files are for somebody who reads under a link; missing: this is the owner's page. */
  readonly shared?: Addresses;
}

const NO_FILES: FilesGateway = {
  takesUploads: async () => false,
  polishes: async () => false,
  uploadLimits: async () => null,
  upload: async () => Promise.reject(new Refused("NotFound", 404, "")),
  deleteUpload: async () => {},
  uploads: async () => [],
  suggestions: async () => [],
  polish: async () => null,
};

const AppContext = createContext<App | null>(null);

export function AppProvider({ app, children }: { app: App; children: ReactNode }) {
  return <AppContext value={app}>{children}</AppContext>;
}

function useApp(): App {
  const app = use(AppContext);
  if (app === null) throw new Error("a component is used outside AppProvider");
  return app;
}

/** A slice of the page's state; `select` must return something of stable identity. */
export function usePage<T>(select: (page: Page) => T): T {
  const { store } = useApp();
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}

export function useActions(): Actions {
  return useApp().actions;
}

export function useFiles(): FilesGateway {
  return useApp().files ?? NO_FILES;
}

/** Where the files of the open thread are. */
export function useAddresses(): Addresses {
  const { shared } = useApp();
  const threadId = usePage((page) => page.threadId);
  return useMemo(() => shared ?? addressesOf(threadId ?? ""), [shared, threadId]);
}

/** Whether somebody reads under a link, and can do nothing else. */
export function useIsReader(): boolean {
  return useApp().shared !== undefined;
}

/** Whether the server has a part that the page can do without. */
export function useOffer(part: "takesUploads" | "polishes"): boolean {
  const files = useFiles();
  const [offered, setOffered] = useState(false);
  useEffect(() => {
    let wanted = true;
    void files[part]().then((has) => wanted && setOffered(has));
    return () => {
      wanted = false;
    };
  }, [files, part]);
  return offered;
}

export function useLanguage(): Language {
  return usePage(({ preferences }) => preferences.language ?? preferredLanguage(navigator.languages));
}

export function useStrings(): Strings {
  return DICTIONARIES[useLanguage()];
}
