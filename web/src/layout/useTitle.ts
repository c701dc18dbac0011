/** Sets the document title. */

import { useEffect } from "react";

export function useTitle(title: string | null): void {
  useEffect(() => {
    document.title = title === null ? "DeerFlow" : `${title} · DeerFlow`;
  }, [title]);
}
