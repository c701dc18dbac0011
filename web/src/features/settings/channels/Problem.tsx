/** Error of a request, below what asked for it. */

import { sentence } from "@/i18n/i18n";

export function Problem({ error }: { error: Error | null }) {
  if (error === null) return null;
  return (
    <p role="alert" className="text-small text-error">
      {sentence(error.message)}
    </p>
  );
}
