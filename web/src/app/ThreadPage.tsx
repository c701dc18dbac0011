/** A conversation, and beside it what came of it. */

import { usePage } from "@/app/context";
import { Header, threadTitle } from "@/app/Header";
import { useTitle } from "@/app/useTitle";
import { ThreadView } from "@/features/chat/ThreadView";
import { SandboxBanner } from "@/features/sandbox/SandboxBanner";

export function ThreadPage() {
  useTitle(usePage(threadTitle));
  return (
    <>
      <Header />
      <SandboxBanner />
      <ThreadView />
    </>
  );
}
