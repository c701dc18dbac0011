/** File name that opens a dialog on a shared page. */

import { lazy, Suspense, useState } from "react";
import { fileName } from "@/api/artifacts";
import { useStrings } from "@/i18n/context";

const SharedFile = lazy(() => import("@/app/shared/SharedFile"));

export function OpenShared({ path }: { path: string }) {
  const strings = useStrings();
  const [open, setOpen] = useState(false);
  const name = fileName(path);
  return (
    <>
      <button
        type="button"
        title={path}
        aria-label={strings.openFile(name)}
        onClick={() => setOpen(true)}
        className="block max-w-full truncate text-left font-medium hover:underline"
      >
        {name}
      </button>
      {open && (
        <Suspense>
          <SharedFile path={path} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
