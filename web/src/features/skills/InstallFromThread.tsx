/** Installs a skill from a presented archive. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useStrings } from "@/i18n/context";
import { sentence } from "@/i18n/i18n";
import { useFeature, useServer } from "@/state/server";
import { Button } from "@/ui/Button";

export function InstallFromThread({ threadId, path }: { threadId: string; path: string }) {
  const { skill: strings } = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const offered = useFeature("skill_editing");
  const installing = useMutation({
    mutationFn: () => server.installSkillFrom(threadId, path),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["skills"] }),
  });
  if (!offered) return null;
  if (installing.isSuccess) {
    return (
      <Link
        to="/skills/$name"
        params={{ name: installing.data.skill_name }}
        className="text-accent underline"
      >
        {strings.installed}
      </Link>
    );
  }
  return (
    <>
      {installing.isError && (
        <p role="alert" className="text-small text-error">
          {sentence(installing.error.message)}
        </p>
      )}
      <Button disabled={installing.isPending} onClick={() => installing.mutate()}>
        {installing.isPending ? strings.installing : strings.installThis}
      </Button>
    </>
  );
}
