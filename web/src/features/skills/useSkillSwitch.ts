/** Switches a skill: shown at once, taken back where the server says no. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { AllSkills, Skill } from "@/api/skills";
import { useServer } from "@/app/server";

export function useSkillSwitch(name: string) {
  const server = useServer();
  const queries = useQueryClient();
  const show = (change: Partial<Skill>) => {
    queries.setQueryData<AllSkills>(
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
