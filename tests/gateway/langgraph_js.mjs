// The API driven by its real JavaScript client: node langgraph_js.mjs <folder with node_modules> <address>
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, apiUrl] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(folder, "package.json")));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { Client } = await load("@langchain/langgraph-sdk");
const { useStream } = await load("@langchain/langgraph-sdk/react");
const { createElement, act, useEffect } = require("react");
const { create } = require("react-test-renderer");

const AGENT = "lead_agent";
const client = new Client({ apiUrl });
const saying = (content) => ({ input: { messages: [{ type: "human", content }] } });
const newThread = async () => (await client.threads.create()).thread_id;
const last = (state) => state.messages.at(-1).content;
const groups = { threads, states, runs, streams, joins, pauses, stops, assistants, store, hook };

for (const [name, group] of Object.entries(groups)) {
  await group();
  console.log(`ok ${name}`);
}

async function threads() {
  const { thread_id } = await client.threads.create({ metadata: { colour: "blue" } });
  await assert.rejects(client.threads.create({ threadId: thread_id }), /409/);
  assert.equal((await client.threads.create({ threadId: thread_id, ifExists: "do_nothing" })).thread_id, thread_id);
  assert.deepEqual((await client.threads.update(thread_id, { metadata: { size: 3 } })).metadata, { colour: "blue", size: 3 });
  const found = await client.threads.search({ metadata: { colour: "blue" }, status: "idle", sortBy: "created_at" });
  assert.deepEqual(found.map((thread) => thread.thread_id), [thread_id]);
  assert.equal(await client.threads.count({ metadata: { colour: "blue" } }), 1);
  await client.threads.delete(thread_id);
  await assert.rejects(client.threads.get(thread_id), /404/);
}

async function states() {
  const id = await newThread();
  await client.runs.wait(id, AGENT, saying("Hi"));
  const history = await client.threads.getHistory(id, { limit: 10 });
  const asked = history.find((state) => state.values.messages.length === 1 && state.next.includes("model"));
  assert.equal(last((await client.threads.getState(id, asked.checkpoint)).values), "Hi");
  assert.equal(last((await client.threads.getState(id, asked.checkpoint.checkpoint_id)).values), "Hi");
  const again = await client.runs.wait(id, AGENT, { input: null, checkpoint: asked.checkpoint });
  assert.deepEqual(again.messages.map((message) => message.content), ["Hi", "Hello there."]);
  const { checkpoint } = await client.threads.updateState(id, { values: saying("Edited").input, asNode: "model" });
  assert.equal((await client.threads.getState(id)).checkpoint.checkpoint_id, checkpoint.checkpoint_id);
  const copy = await client.threads.copy(id);
  assert.equal(last((await client.threads.getState(copy.thread_id)).values), "Edited");
}

async function runs() {
  const id = await newThread();
  const run = await client.runs.create(id, AGENT, saying("Hi"));
  assert.equal(last(await client.runs.join(id, run.run_id)), "Hello there.");
  assert.equal((await client.runs.get(id, run.run_id)).status, "success");
  assert.equal((await client.runs.list(id)).length, 1);
  await client.runs.delete(id, run.run_id);
  await assert.rejects(client.runs.get(id, run.run_id), /404/);
  assert.equal(last(await client.runs.wait(null, AGENT, saying("Hi"))), "Hello there.");
  const batch = await client.runs.createBatch([{ assistantId: AGENT, ...saying("Hi") }]);
  assert.equal(batch.length, 1);
  await assert.rejects(client.runs.wait(id, AGENT, saying("fail")), /no such word/);
}

async function streams() {
  const id = await newThread();
  const streamMode = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug"];
  const events = new Set();
  let words = "";
  for await (const part of client.runs.stream(id, AGENT, { ...saying("Hi"), streamMode, streamSubgraphs: true })) {
    events.add(part.event);
    if (part.event === "messages") words += part.data[0].content;
  }
  assert.equal(words, "Hello there.");
  for (const name of ["metadata", "values", "updates", "messages", "tasks", "checkpoints", "debug"])
    assert.ok(events.has(name), name);
}

async function joins() {
  const id = await newThread();
  let made;
  const options = { ...saying("Hi"), streamMode: ["messages"], onRunCreated: (run) => (made = run) };
  const read = [];
  for await (const part of client.runs.stream(id, AGENT, options)) read.push(part);
  assert.equal(read.at(-2).data[0].content, "Hello there.");
  const again = [];
  for await (const part of client.runs.joinStream(id, made.run_id, { lastEventId: "0" })) again.push(part);
  assert.deepEqual(again.map((part) => part.event), read.map((part) => part.event));
  const rest = [];
  for await (const part of client.runs.joinStream(id, made.run_id, { lastEventId: read.at(-2).id, streamMode: ["values"] }))
    rest.push(part.event);
  assert.equal(rest.at(-1), "end");
}

async function pauses() {
  const id = await newThread();
  const asking = await client.runs.wait(id, AGENT, saying("launch"));
  assert.equal(asking.__interrupt__[0].value.action_requests[0].name, "launch");
  const thread = await client.threads.get(id);
  assert.equal(thread.status, "interrupted");
  assert.equal(Object.values(thread.interrupts)[0][0].id, asking.__interrupt__[0].id);
  const state = await client.threads.getState(id);
  assert.equal(state.tasks.at(-1).interrupts[0].id, asking.__interrupt__[0].id);
  const command = { resume: { decisions: [{ type: "approve" }] } };
  assert.equal(last(await client.runs.wait(id, AGENT, { command })), "Hello there.");
}

async function stops() {
  const id = await newThread();
  const run = await client.runs.create(id, AGENT, { ...saying("wait"), streamMode: ["messages-tuple"] });
  for await (const part of client.runs.joinStream(id, run.run_id)) if (part.event === "messages") break;
  await assert.rejects(client.runs.create(id, AGENT, { ...saying("Hi"), multitaskStrategy: "reject" }), /409/);
  await client.runs.cancel(id, run.run_id, true);
  assert.equal((await client.runs.get(id, run.run_id)).status, "interrupted");
}

async function assistants() {
  const [lead] = await client.assistants.search({ graphId: AGENT });
  assert.equal(lead.assistant_id, AGENT);
  assert.ok((await client.assistants.getGraph(AGENT)).nodes.some((node) => node.id === "model"));
  assert.ok((await client.assistants.getSchemas(AGENT)).input_schema.properties.messages);
  const made = await client.assistants.create({ graphId: AGENT, name: "poet", context: { soul: "You rhyme." } });
  assert.equal((await client.assistants.update(made.assistant_id, { description: "Rhymes." })).description, "Rhymes.");
  assert.equal(last(await client.runs.wait(null, made.assistant_id, saying("Hi"))), "Hello there.");
  await client.assistants.delete(made.assistant_id);
  await assert.rejects(client.assistants.get(made.assistant_id), /404/);
}

async function store() {
  await client.store.putItem(["js"], "one", { size: 1 });
  assert.deepEqual((await client.store.getItem(["js"], "one")).value, { size: 1 });
  assert.equal((await client.store.searchItems(["js"], { filter: { size: 1 } })).items.length, 1);
  assert.deepEqual((await client.store.listNamespaces({ prefix: ["js"] })).namespaces, [["js"]]);
  await client.store.deleteItem(["js"], "one");
  assert.equal(await client.store.getItem(["js"], "one"), null);
}

async function hook() {
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  let stream;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  function Chat() {
    stream = useStream({ apiUrl, assistantId: AGENT, messagesKey: "messages", onFinish: finish, fetchStateHistory: true });
    useEffect(() => {
      stream.submit(saying("Hi").input);
    }, []);
    return null;
  }
  await act(async () => {
    create(createElement(Chat));
  });
  await act(async () => {
    await finished;
  });
  assert.deepEqual(stream.messages.map((message) => message.content), ["Hi", "Hello there."]);
  assert.equal(stream.interrupt, undefined);
}
