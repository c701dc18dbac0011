/** What others share with the person: in the thread list, and who shares the open thread. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { BookOpen, Bot, Users } from "lucide-react";
import { useStrings } from "@/i18n/context";
import { useTeamStrings } from "@/i18n/teams";
import { useServer } from "@/state/server";
import { useTeamsApi } from "@/state/teams";
import { toThread } from "@/state/threadList";

const REFRESH_MS = 20_000;

export function useSharedWithMe() {
  const { accounts } = useServer();
  const teams = useTeamsApi();
  const me = useQuery({ queryKey: ["me"], queryFn: accounts.me });
  return useQuery({
    queryKey: ["shared-with-me"],
    queryFn: teams.sharedWithMe,
    enabled: me.data?.login_required === true,
    refetchInterval: REFRESH_MS,
  });
}

/** Owner and access of a thread, if it is shared with the person. */
export function SharedNote({ threadId }: { threadId: string }) {
  const words = useTeamStrings();
  const found = useSharedWithMe().data?.threads.find(({ thread }) => thread.thread_id === threadId);
  if (found === undefined) return null;
  return (
    <p className="truncate text-small text-faint" title={words.sharedBy(found.shared_by)}>
      {words.sharedBy(found.shared_by)} · {words.accesses[found.access]}
    </p>
  );
}

export default function SharedThreads() {
  const strings = useStrings();
  const words = useTeamStrings();
  const shared = useSharedWithMe();
  const found = shared.data;
  if (found === undefined || found.threads.length + found.agents.length + found.skills.length === 0)
    return null;
  return (
    <section
      aria-label={words.sharedWithMe}
      className="flex max-h-[30%] shrink-0 flex-col border-b border-line px-3 pb-2"
    >
      <div className="flex h-8 shrink-0 items-center pl-2 text-small text-faint">{words.sharedWithMe}</div>
      <ul className="min-h-0 overflow-y-auto">
        {found.threads.map(({ thread, access, shared_by }) => {
          const { id, title } = toThread(thread);
          const name = title ?? strings.untitled;
          return (
            <li key={id} className={ROW}>
              <Link
                to="/threads/$threadId"
                params={{ threadId: id }}
                title={[name, words.sharedBy(shared_by), words.accesses[access]].join("\n")}
                activeOptions={{ includeSearch: false }}
                className={LINK}
              >
                <Users aria-hidden className="size-3.5 shrink-0 text-faint" />
                <span className="truncate">{name}</span>
              </Link>
            </li>
          );
        })}
        {found.agents.map(({ address, name, access, shared_by }) => (
          <li key={address} className={ROW}>
            <Link
              to="/agents/$name"
              params={{ name: address }}
              title={[name, words.sharedBy(shared_by), words.accesses[access]].join("\n")}
              className={LINK}
            >
              <Bot role="img" aria-label={words.agent} className="size-3.5 shrink-0 text-faint" />
              <span className="truncate">{name}</span>
            </Link>
          </li>
        ))}
        {found.skills.map(({ address, name, access, shared_by, is_accepted }) => (
          <li key={address} className={ROW}>
            <Link
              to="/skills/$name"
              params={{ name: address }}
              title={[name, words.sharedBy(shared_by), words.accesses[access]].join("\n")}
              className={LINK}
            >
              <BookOpen role="img" aria-label={words.skill} className="size-3.5 shrink-0 text-faint" />
              <span className="truncate">{name}</span>
              {!is_accepted && <span className="ml-auto shrink-0 text-small">{words.off}</span>}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

const ROW = "h-8 pointer-coarse:h-11";
const LINK =
  "flex h-full items-center gap-2 rounded-box px-2 text-soft hover:bg-tint hover:text-ink aria-[current]:bg-tint-strong aria-[current]:text-ink";
