/** Turns a skill on or off; optimistic, reverted on error. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { Skill, SkillList } from "@/api/skills";
import { useServer } from "@/state/server";

export function useSkillSwitch(name: string) {
  const server = useServer();
  const queries = useQueryClient();
  const show = (change: Partial<Skill>) => {
    queries.setQueryData<SkillList>(
      ["skills"],
      (all) =>
        all && {
          ...all,
          skills: all.skills.map((each) => (each.name === name ? { ...each, ...change } : each)),
        },
    );
    queries.setQueryData<Skill>(["skills", name], (skill) => skill && { ...skill, ...change });
  };
  return useMutation({
    mutationFn: (enabled: boolean) => server.switchSkill(name, enabled),
    onMutate: (enabled) => show({ enabled }),
    onError: (_, enabled) => show({ enabled: !enabled }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["skills"] }),
  });
}
