/** Sets the document title. */

import { useEffect } from "react";

/** `mark` stands before the title, such as the number of threads that wait for the user. */
export function useTitle(title: string | null, mark = ""): void {
  useEffect(() => {
    document.title = `${mark}${title === null ? "DeerFlow" : `${title} · DeerFlow`}`;
  }, [title, mark]);
}
