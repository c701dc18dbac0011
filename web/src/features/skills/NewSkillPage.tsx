/** Page of a new skill. */

import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { SkillEditor } from "@/features/skills/SkillEditor";
import { useStrings } from "@/i18n/context";
import { PageFrame } from "@/layout/PageFrame";
import { useServer } from "@/state/server";

export function NewSkillPage() {
  const strings = useStrings();
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const create = async (content: string) => {
    const { name } = await server.createSkill(content);
    await queries.invalidateQueries({ queryKey: ["skills"] });
    await navigate({ to: "/skills/$name", params: { name } });
  };
  return (
    <PageFrame title={strings.skill.new}>
      <p className="mb-4 text-soft">{strings.skill.newHint}</p>
      <SkillEditor text={strings.skill.template} submitWord={strings.create} onSave={create} />
    </PageFrame>
  );
}
