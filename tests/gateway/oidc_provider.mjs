// Runs the certified provider `oidc-provider` on a free port: node oidc_provider.mjs FOLDER
// Prints its issuer, then reads one line with the redirect URIs of the client as JSON, then prints "ready".
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { createInterface } from "node:readline/promises";

const require = createRequire(`${process.argv[2]}/`);
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const server = createServer();
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;
console.log(issuer);

const lines = createInterface({ input: process.stdin });
const [redirects] = await new Promise((found) => lines.once("line", (line) => found([JSON.parse(line)])));
const provider = new Provider(issuer, {
  clients: [{ client_id: "deerflow", client_secret: "a-client-secret-of-tests", redirect_uris: redirects }],
  cookies: { keys: ["a key of tests"] },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: id !== "eve", name: id }),
  }),
});
server.on("request", provider.callback());
console.log("ready");
process.stdin.on("end", () => process.exit(0));
