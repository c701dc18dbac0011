import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { Refused } from "@/api/http";
import type { Server } from "@/api/server";
import type { Skill, WholeSkill } from "@/api/skills";
import { fakeGateway } from "@/testing/gateway";
import { showPage } from "@/testing/page";

const RESEARCH: Skill = {
  name: "deep-research",
  description: "Finds out what is known",
  license: "MIT",
  category: "public",
  enabled: true,
  editable: false,
};
const OWN: Skill = { ...RESEARCH, name: "house-style", description: "How we write", category: "custom" };
const WHOLE: WholeSkill = {
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
  const offers = async () => ({ skills: true });
  return showPage(fakeGateway(), { path, server: { offers, skills: async () => all, ...server } });
}

test("skills are listed by where they come from, and found by their words", async () => {
  show("/skills");
  const own = await screen.findByRole("region", { name: "Your own" });
  expect(within(own).getByRole("link", { name: "house-style" }).getAttribute("href")).toBe(
    "/skills/house-style",
  );
  await userEvent.type(screen.getByRole("searchbox", { name: "Search skills" }), "what Known");
  expect(screen.queryByRole("link", { name: "house-style" })).toBeNull();
  expect(screen.getByRole("link", { name: "deep-research" })).toBeTruthy();
  await userEvent.type(screen.getByRole("searchbox", { name: "Search skills" }), " nowhere");
  expect(screen.getByText("No skill has these words.")).toBeTruthy();
});

test("a skill is switched off at once, and on again where the server says no", async () => {
  let enabled = true;
  show("/skills", {
    skills: async () => ({ skills: [{ ...RESEARCH, enabled }] }),
    switchSkill: async (_, on) => {
      if (on) throw new Refused("Forbidden", 403, "only an administrator may do this");
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

test("what is not usable says why", async () => {
  const refused = [{ category: "custom", path: "broken", reason: "the header has no description" }];
  show("/skills", { skills: async () => ({ skills: [], refused }) });
  const section = await screen.findByRole("region", { name: "Not usable" });
  expect(section.textContent).toContain("custom/broken");
  expect(section.textContent).toContain("The header has no description.");
});

test("a skill is read without its header, with its files, and used in a new thread", async () => {
  const { paths } = show("/skills/deep-research", { skill: async () => WHOLE });
  const text = await screen.findByRole("article", { name: "SKILL.md" });
  expect(within(text).getByRole("heading", { name: "How to look" })).toBeTruthy();
  expect(text.textContent).not.toContain("name: deep-research");
  expect(screen.getByText("bash, read_file")).toBeTruthy();
  expect(screen.getByText("scripts/look.py")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Use it in a new thread" }));
  expect(paths).toEqual(["/"]);
  expect((await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Message" })).value).toBe(
    "/deep-research ",
  );
});

test("a skill is chosen by keyboard while its name is being written", async () => {
  show("/");
  const box = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Message" });
  await userEvent.type(box, "/res");
  expect(await screen.findByRole("option", { name: /deep-research/ })).toBeTruthy();
  expect(screen.queryByRole("option", { name: /house-style/ })).toBeNull();
  await userEvent.keyboard("{Enter}");
  expect(box.value).toBe("/deep-research ");
  expect(screen.queryByRole("listbox")).toBeNull();
});

test("a server without skills has no page of them", async () => {
  showPage(fakeGateway(), {});
  await screen.findByRole("link", { name: "Agents" });
  expect(screen.queryByRole("link", { name: "Skills" })).toBeNull();
});
