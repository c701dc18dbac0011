/** Feedback on answers. */

import { type Fetch, jsonBody, request, requestJson } from "@/api/http";
import type { Schemas } from "@/api/wire";

export type Feedback = Pick<
  Schemas["Feedback"],
  "feedback_id" | "run_id" | "message_id" | "rating" | "comment"
>;
export type Rating = Feedback["rating"];

export interface FeedbackApi {
  /** List the ratings of all answers of a thread. */
  feedback(threadId: string): Promise<readonly Feedback[]>;
  /** Rate an answer, or replace its rating. */
  rate(
    threadId: string,
    runId: string,
    given: { message_id: string; rating: Rating; comment: string | null },
  ): Promise<Feedback>;
  unrate(threadId: string, given: Pick<Feedback, "run_id" | "feedback_id">): Promise<void>;
}

export function feedbackApi(fetch: Fetch): FeedbackApi {
  const thread = (threadId: string) => `/api/threads/${encodeURIComponent(threadId)}`;
  const run = (threadId: string, runId: string) =>
    `${thread(threadId)}/runs/${encodeURIComponent(runId)}/feedback`;
  return {
    feedback: (threadId) => requestJson(fetch, `${thread(threadId)}/feedback`),
    rate: (threadId, runId, given) => requestJson(fetch, run(threadId, runId), jsonBody(given, "PUT")),
    async unrate(threadId, { run_id, feedback_id }) {
      await request(fetch, `${run(threadId, run_id)}/${encodeURIComponent(feedback_id)}`, {
        method: "DELETE",
      });
    },
  };
}
