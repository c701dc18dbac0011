/**
 * Shows a web page while it is being written, inside a sandboxed document without an origin. Its scripts do not run
 * before it is complete, and it cannot navigate.
 */

const REMOVED = "script, meta[http-equiv], base, link, iframe, frame, object, embed, form";

window.addEventListener("message", ({ data, source }) => {
  if (source !== window.parent || typeof data?.html !== "string") return;
  const written = new DOMParser().parseFromString(data.html, "text/html");
  for (const element of written.querySelectorAll(REMOVED)) element.remove();
  document.replaceChild(document.adoptNode(written.documentElement), document.documentElement);
  window.scrollTo(0, document.documentElement.scrollHeight);
});
document.addEventListener("click", (event) => event.preventDefault(), { capture: true });

window.parent.postMessage("ready to show", "*");
