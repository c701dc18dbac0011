import { expect, test } from "vitest";
import { artifactUrl } from "@/api/artifacts";

test("a path keeps its slashes and everything else is encoded", () => {
  expect(artifactUrl("t/1", "/mnt/user-data/outputs/a b/100%?#.png")).toBe(
    "/api/threads/t%2F1/artifacts/mnt/user-data/outputs/a%20b/100%25%3F%23.png",
  );
});

test("a file has a download URL", () => {
  expect(artifactUrl("t", "/x.csv", { download: true })).toBe("/api/threads/t/artifacts/x.csv?download=true");
});
