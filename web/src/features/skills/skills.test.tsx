import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ApiError } from "@/api/http";
import type { Server } from "@/api/server";
import type { CustomSkill, Installed, Skill, SkillChange, SkillSource, SkillWithContent } from "@/api/skills";
import { deferred, fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const RESEARCH: Skill = {
  name: "deep-research",
  description: "Finds out what is known",
  license: "MIT",
  category: "public",
  enabled: true,
  editable: false,
};
const OWN: Skill = {
  ...RESEARCH,
  name: "house-style",
  description: "How we write",
  category: "custom",
  editable: true,
};
const WHOLE: SkillWithContent = {
  ...RESEARCH,
  content: "---\nname: deep-research\n---\n# How to look\n\nAsk **first**.\n",
  files: [
    { path: "SKILL.md", size: 60 },
    { path: "scripts/look.py", size: 1200 },
  ],
  allowed_tools: ["bash", "read_file"],
};

function show(path: string, server: Partial<Server> = {}) {
  const all = { skills: [RESEARCH, OWN], refused: [] };
  const features = async () => ({ skills: true, skill_editing: true });
  return showPage(fakeGateway(), { path, server: { features, skills: async () => all, ...server } });
}

test("skills are grouped by source and searchable", async () => {
  show("/skills");
  const own = await screen.findByRole("region", { name: "Custom" });
  expect(within(own).getByRole("link", { name: "house-style" }).getAttribute("href")).toBe(
    "/skills/house-style",
  );
  await userEvent.type(screen.getByRole("searchbox", { name: "Search skills" }), "what Known");
  expect(screen.queryByRole("link", { name: "house-style" })).toBeNull();
  expect(screen.getByRole("link", { name: "deep-research" })).toBeTruthy();
  await userEvent.type(screen.getByRole("searchbox", { name: "Search skills" }), " nowhere");
  expect(screen.getByText("No matches")).toBeTruthy();
});

test("switching a skill is optimistic and reverted on error", async () => {
  let enabled = true;
  show("/skills", {
    skills: async () => ({ skills: [{ ...RESEARCH, enabled }] }),
    switchSkill: async (_, on) => {
      if (on) throw new ApiError("Forbidden", 403, "only an administrator may do this");
      enabled = on;
      return { ...RESEARCH, enabled };
    },
  });
  const toggle = await screen.findByRole("switch", { name: "Use deep-research" });
  await userEvent.click(toggle);
  await waitFor(() => expect(toggle.getAttribute("aria-checked")).toBe("false"));
  await userEvent.click(toggle);
  expect((await screen.findByRole("alert")).textContent).toContain("Only an administrator may do this.");
  expect(toggle.getAttribute("aria-checked")).toBe("false");
});

test("folders that failed to load show the reason", async () => {
  const refused = [{ category: "custom" as const, path: "broken", reason: "the header has no description" }];
  show("/skills", { skills: async () => ({ skills: [], refused }) });
  const section = await screen.findByRole("region", { name: "Failed to load" });
  expect(section.textContent).toContain("custom/broken");
  expect(section.textContent).toContain("The header has no description.");
});

test("a skill shows its body and files and can be used in a new thread", async () => {
  const { paths } = show("/skills/deep-research", { skill: async () => WHOLE });
  const text = await screen.findByRole("article", { name: "SKILL.md" });
  expect(within(text).getByRole("heading", { name: "How to look" })).toBeTruthy();
  expect(text.textContent).not.toContain("name: deep-research");
  expect(screen.getByText("bash, read_file")).toBeTruthy();
  expect(screen.getByText("scripts/look.py")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Use in new thread" }));
  expect(paths).toEqual(["/"]);
  expect((await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Message" })).value).toBe(
    "/deep-research ",
  );
});

const CHANGED: SkillChange = {
  history_index: 1,
  at: "2026-01-02T10:00:00Z",
  action: "edit",
  author: "agent",
  thread_id: "t",
  file: "SKILL.md",
  diff: "@@ -1 +1 @@\n-old\n+new",
};
const MADE: SkillChange = {
  ...CHANGED,
  history_index: 0,
  action: "create",
  author: "person",
  thread_id: null,
};

test("a custom skill is edited and rejected edits are kept", async () => {
  const saved: string[] = [];
  show("/skills/house-style", {
    skill: async () => ({ ...WHOLE, ...OWN }),
    customSkill: async () => ({ name: "house-style", content: "old text", sha256: "abc", source: null }),
    saveSkill: async (name, content, expected) => {
      saved.push(`${name} ${expected} ${content}`);
      throw new ApiError("SkillRefused", 422, "line 3 hides a secret");
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Edit" }));
  await waitFor(() => {
    const editor = document.querySelector("form .overflow-hidden")?.shadowRoot;
    expect(editor?.textContent).toContain("old text");
  });
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  expect((await screen.findByRole("alert")).textContent).toContain("Line 3 hides a secret.");
  expect(saved).toEqual(["house-style abc old text"]);
  await userEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(await screen.findByRole("article", { name: "SKILL.md" })).toBeTruthy();
});

test("changes are listed newest first and undone by index", async () => {
  const undone: number[] = [];
  show("/skills/house-style", {
    skill: async () => ({ ...WHOLE, ...OWN }),
    skillHistory: async () => [MADE, CHANGED],
    undoSkillChange: async (_, index) => {
      undone.push(index);
    },
  });
  const history = await screen.findByRole("list", { name: "History" });
  const [newest] = within(history).getAllByRole("listitem");
  await userEvent.click(within(history).getByRole("button", { name: /^Changed/ }));
  expect(newest?.textContent).toContain("+new");
  expect(newest?.textContent).toContain("By an agent");
  expect(within(history).getAllByRole("button", { name: "Undo" })).toHaveLength(1);
  await userEvent.click(within(history).getByRole("button", { name: "Undo" }));
  await waitFor(() => expect(undone).toEqual([1]));
});

test("deleting a skill can be undone", async () => {
  const done: string[] = [];
  const { paths } = show("/skills/house-style", {
    skill: async () => ({ ...WHOLE, ...OWN }),
    deleteSkill: async (name) => {
      done.push(`deleted ${name}`);
    },
    undoSkillChange: async (name, index) => {
      done.push(`undone ${name} ${index}`);
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Delete" }));
  const notice = await screen.findByText("“house-style” deleted");
  expect(notice).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Undo" }));
  await waitFor(() => expect(paths.at(-1)).toBe("/skills/house-style"));
  expect(done).toEqual(["deleted house-style", "undone house-style -1"]);
});

test("a skill is created from text or installed from a file", async () => {
  const made: string[] = [];
  const { paths } = show("/skills/_new", {
    skill: async () => WHOLE,
    createSkill: async (content) => {
      made.push(content);
      return { name: "my-skill", content, sha256: "", source: null };
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Create" }));
  await waitFor(() => expect(paths).toEqual(["/skills/my-skill"]));
  expect(made[0]).toContain("name: my-skill");
});

test("a failed installation shows the reason", async () => {
  show("/skills", {
    installSkill: async () => {
      throw new ApiError("SkillRefused", 422, "it leads out of its folder");
    },
  });
  await screen.findByRole("link", { name: "deep-research" });
  const picker = document.querySelector<HTMLInputElement>("input[type=file]");
  await userEvent.upload(picker as HTMLInputElement, new File(["x"], "bad.skill"));
  expect((await screen.findByRole("alert")).textContent).toContain("It leads out of its folder.");
});

test("a skill is installed from a URL and a rejected URL is kept", async () => {
  const sent: string[] = [];
  const installed = deferred<Installed>();
  const { paths } = show("/skills", {
    skill: async () => WHOLE,
    installSkillFromUrl: async (url) => {
      sent.push(url);
      if (sent.length === 1) throw new ApiError("InvalidRequest", 422, "it has 2 skills; choose a folder");
      return installed.promise;
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Install from URL" }));
  const dialog = await screen.findByRole("dialog", { name: "Install from URL" });
  const field = within(dialog).getByRole<HTMLInputElement>("textbox", { name: "URL" });
  const install = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Install" });
  expect(install.disabled).toBe(true);
  await userEvent.type(field, " https://git.example.org/tea{Enter}");
  const problem = await within(dialog).findByRole("alert");
  expect(problem.textContent).toContain("It has 2 skills; choose a folder.");
  await userEvent.type(field, "/tree/main/milk{Enter}");
  expect(await within(dialog).findByRole("button", { name: "Installing…" })).toBe(install);
  expect(within(dialog).queryByRole("alert")).toBeNull();
  installed.resolve({ skill_name: "milk", message: "" });
  await waitFor(() => expect(paths).toEqual(["/skills/milk"]));
  expect(sent).toEqual(["https://git.example.org/tea", "https://git.example.org/tea/tree/main/milk"]);
});

test("closing the URL dialog dismisses its error and keeps the text", async () => {
  show("/skills", {
    installSkillFromUrl: async () => Promise.reject(new ApiError("SkillUnavailable", 502, "not reachable")),
  });
  const open = await screen.findByRole("button", { name: "Install from URL" });
  await userEvent.click(open);
  await userEvent.type(screen.getByRole("textbox", { name: "URL" }), "https://a.org/b{Enter}");
  expect(await screen.findByRole("alert")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(screen.queryByRole("alert")).toBeNull();
  await userEvent.click(open);
  expect(screen.getByRole<HTMLInputElement>("textbox", { name: "URL" }).value).toBe("https://a.org/b");
});

const SOURCE: SkillSource = {
  url: "https://git.example.org/house-style",
  revision: "a".repeat(40),
  ref: "main",
  folder: null,
};
const INSTALLED: CustomSkill = { name: "house-style", content: "", sha256: "", source: SOURCE };

test("an update is compared with the installed files and the shown revision installed", async () => {
  const newest = { ...SOURCE, revision: "b".repeat(40) };
  const sent: unknown[] = [];
  let source = SOURCE;
  let diff = "";
  show("/skills/house-style", {
    skill: async () => ({ ...WHOLE, ...OWN }),
    customSkill: async () => ({ ...INSTALLED, source }),
    checkSkillUpdate: async () => ({
      source: diff ? newest : source,
      installed_revision: source.revision,
      diff,
    }),
    updateSkill: async (...given) => {
      sent.push(given);
      if (sent.length === 1) throw new ApiError("SkillRefused", 422, "line 3 hides a secret");
      source = newest;
      return { skill_name: "house-style", message: "" };
    },
  });
  const section = await screen.findByRole("region", { name: "Source" });
  expect(within(section).getByRole("link", { name: SOURCE.url }).getAttribute("href")).toBe(SOURCE.url);
  expect(within(section).getByText(SOURCE.revision)).toBeTruthy();
  const check = within(section).getByRole("button", { name: "Check for updates" });
  await userEvent.click(check);
  expect(await within(section).findByText("This skill is up to date.")).toBeTruthy();

  diff = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1 +1 @@\n-old\n+new\n";
  await userEvent.click(check);
  expect(await within(section).findByText("+new")).toBeTruthy();
  const update = within(section).getByRole("button", { name: "Update" });
  await userEvent.click(update);
  expect((await within(section).findByRole("alert")).textContent).toContain("Line 3 hides a secret.");
  expect(within(section).getByText("+new")).toBeTruthy();
  await userEvent.click(update);
  expect(await within(section).findByText("Updated")).toBeTruthy();
  expect(within(section).getByText(newest.revision)).toBeTruthy();
  expect(within(section).queryByText("+new")).toBeNull();
  expect(within(section).queryByRole("alert")).toBeNull();
  await waitFor(() => expect(document.activeElement).toBe(check));
  expect(sent).toEqual([
    ["house-style", newest.revision],
    ["house-style", newest.revision],
  ]);
});

test("a failed check shows the reason, and a skill without a source has no updates", async () => {
  let source: SkillSource | null = { ...SOURCE, revision: `sha256:${"c".repeat(64)}` };
  show("/skills/house-style", {
    skill: async () => ({ ...WHOLE, ...OWN }),
    customSkill: async () => ({ ...INSTALLED, source }),
    checkSkillUpdate: async () =>
      Promise.reject(new ApiError("SkillUnavailable", 502, "it took longer than 120 s")),
    undoSkillChange: async () => {
      source = null;
    },
    skillHistory: async () => [CHANGED],
  });
  const section = await screen.findByRole("region", { name: "Source" });
  expect(within(section).getByText("SHA-256").nextElementSibling?.textContent).toBe("c".repeat(64));
  await userEvent.click(within(section).getByRole("button", { name: "Check for updates" }));
  const problem = await within(section).findByRole("alert");
  expect(problem.textContent).toBe("Couldn’t check for updates. It took longer than 120 s.");
  await userEvent.click(await screen.findByRole("button", { name: "Undo" }));
  await waitFor(() => expect(screen.queryByRole("region", { name: "Source" })).toBeNull());
});

test("a skill is completed with the keyboard", async () => {
  show("/");
  const box = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Message" });
  await userEvent.type(box, "/res");
  expect(await screen.findByRole("option", { name: /deep-research/ })).toBeTruthy();
  expect(screen.queryByRole("option", { name: /house-style/ })).toBeNull();
  await userEvent.keyboard("{Enter}");
  expect(box.value).toBe("/deep-research ");
  expect(screen.queryByRole("listbox")).toBeNull();
});

test("a server without skills has no skills link", async () => {
  showPage(fakeGateway(), {});
  await screen.findByRole("link", { name: "Agents" });
  expect(screen.queryByRole("link", { name: "Skills" })).toBeNull();
});

test("the tests of a skill are run and each case has its result", async () => {
  const withTests = { ...WHOLE, files: [...WHOLE.files, { path: "tests/deck.yaml", size: 20 }] };
  let calls = 0;
  show("/skills/deep-research", {
    skill: async () => withTests,
    testSkill: async () => {
      calls += 1;
      if (calls === 1) throw new ApiError("Conflict", 409, "tests of a skill are running already");
      return {
        cases: [
          { name: "deck", passed: true, failures: [], outputs: [], seconds: 3.21 },
          {
            name: "notes",
            passed: false,
            failures: ["answer: expected 'x'"],
            outputs: ["bash: ok"],
            seconds: 1,
          },
        ],
        problems: [],
      };
    },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Run tests" }));
  expect((await screen.findByRole("alert")).textContent).toContain("running already");
  await userEvent.click(screen.getByRole("button", { name: "Run tests" }));
  expect(await screen.findByText("1 of 2 passed")).toBeTruthy();
  expect(screen.getByText("Answer: expected 'x'.")).toBeTruthy();
});
