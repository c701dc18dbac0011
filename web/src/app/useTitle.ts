/** Puts a title on the window. */

import { useEffect } from "react";

export function useTitle(title: string | null): void {
  useEffect(() => {
    document.title = title === null ? "DeerFlow" : `${title} · DeerFlow`;
  }, [title]);
}
