/** Installs a skill from a file or a URL. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { FileUp, Link2, type LucideIcon } from "lucide-react";
import { type ComponentProps, useRef } from "react";
import { useStrings } from "@/i18n/context";
import { useServer } from "@/state/server";
import { Button } from "@/ui/Button";

/** The buttons, the dialog and the notice below the page title share one installation. */
export function useInstallation() {
  const server = useServer();
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (source: File | string) =>
      typeof source === "string" ? server.installSkillFromUrl(source) : server.installSkill(source),
    onSuccess: async ({ skill_name: name }) => {
      await queries.invalidateQueries({ queryKey: ["skills"] });
      await navigate({ to: "/skills/$name", params: { name } });
    },
  });
}

interface Props {
  readonly busy: boolean;
  readonly onChoose: (file: File) => void;
  readonly onAskUrl: () => void;
}

export function InstallButtons({ busy, onChoose, onAskUrl }: Props) {
  const { skill: strings } = useStrings();
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <InstallButton
        icon={FileUp}
        label={strings.install}
        disabled={busy}
        onClick={() => picker.current?.click()}
      />
      <InstallButton icon={Link2} label={strings.installUrl} disabled={busy} onClick={onAskUrl} />
      <input
        ref={picker}
        type="file"
        accept=".skill,.zip"
        hidden
        aria-label={strings.install}
        onChange={({ target }) => {
          const [file] = target.files ?? [];
          if (file !== undefined) onChoose(file);
          target.value = "";
        }}
      />
    </>
  );
}

interface InstallButtonProps extends ComponentProps<"button"> {
  readonly icon: LucideIcon;
  readonly label: string;
}

/** Shows only its icon where the title bar is narrow. */
function InstallButton({ icon: Icon, label, ...rest }: InstallButtonProps) {
  return (
    <Button title={label} className="inline-flex items-center gap-1" {...rest}>
      <Icon aria-hidden className="size-4" />
      <span className="sr-only wide:not-sr-only">{label}</span>
    </Button>
  );
}
