"""A small GitHub for tests: prints its port, then answers from a fixed repository; `/limited` has no requests left."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

REPO = "/repos/acme/kettle"


def commit(login, date):
    return {"sha": "a" * 40, "author": {"login": login}, "commit": {"author": {"name": login, "date": date}}}


def issue(number, created, closed=None, comments=0, **more):
    state = "closed" if closed else "open"
    base = {"number": number, "title": f"Issue {number}", "state": state, "created_at": created, "closed_at": closed}
    return {**base, "comments": comments, "author_association": "NONE", "html_url": f"https://x/{number}", **more}


def release(tag, published, **more):
    return {"tag_name": tag, "published_at": published, "draft": False, "prerelease": False, **more}


PEOPLE = ["ann"] * 6 + ["bob"] * 3 + ["cy"] + ["dependabot[bot]"] * 5
ANSWERS = {
    REPO: {
        "full_name": "acme/kettle", "default_branch": "main", "stargazers_count": 4210, "forks_count": 321,
        "archived": False, "license": {"spdx_id": "MIT"}, "created_at": "2020-01-01T00:00:00Z",
        "pushed_at": "2026-05-30T00:00:00Z",
    },
    f"{REPO}/languages": {"Python": 9000, "Shell": 1000},
    f"{REPO}/releases": [
        release("v2.1", "2026-05-01T00:00:00Z"), release("v2.2rc1", "2026-05-20T00:00:00Z", prerelease=True),
        release("v2.0", "2026-04-01T00:00:00Z"), release("v1.9", "2026-03-02T00:00:00Z"),
    ],
    f"{REPO}/contributors": [{"login": "ann", "contributions": 600}],
    f"{REPO}/commits": [commit(who, f"2026-05-{day:02}T00:00:00Z") for day, who in enumerate(PEOPLE, 1)],
    f"{REPO}/issues": [
        issue(5, "2026-05-29T00:00:00Z", pull_request={}), issue(4, "2026-05-20T00:00:00Z", comments=3),
        issue(3, "2026-03-01T00:00:00Z"), issue(2, "2026-02-01T00:00:00Z", "2026-02-05T00:00:00Z", comments=8),
        issue(1, "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", comments=1),
    ],
    f"{REPO}/pulls": [
        {"user": {"login": "eve"}, "author_association": "NONE", "created_at": "2026-05-01T00:00:00Z",
         "merged_at": "2026-05-04T00:00:00Z"},
        {"user": {"login": "fay"}, "author_association": "NONE", "created_at": "2026-05-01T00:00:00Z",
         "merged_at": None},
    ],
    f"{REPO}/security-advisories": [],
    f"{REPO}/git/trees/main": {"tree": [{"path": "kettle/__init__.py", "type": "blob"}]},
    f"{REPO}/readme": {"name": "README.md", "content": "S2V0dGxl"},
    f"{REPO}/issues/2/comments": [
        {"user": {"login": "ann"}, "author_association": "OWNER", "created_at": "2026-02-02T12:00:00Z"}
    ],
    f"{REPO}/issues/1/comments": [],
    f"{REPO}/issues/4/comments": [],
}  # fmt: skip


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = urlsplit(self.path)
        if asked.path.startswith("/limited"):
            return self.answer(
                403, {"message": "limit"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1780000000"}
            )
        if asked.path.startswith("/elsewhere"):
            return self.answer(301, {}, {"Location": "http://localhost:1/repos/acme/kettle"})
        found = ANSWERS.get(asked.path)
        if found is None:
            return self.answer(404, {"message": "Not Found"}, {})
        headers = {}
        if isinstance(found, list):  # two pages, to show that lists are followed
            page = int(parse_qs(asked.query).get("page", ["1"])[0])
            half = (len(found) + 1) // 2
            if page == 1 and len(found) > 1:
                port = self.server.server_address[1]
                headers["Link"] = f'<http://127.0.0.1:{port}{asked.path}?page=2>; rel="next"'
            found = found[:half] if page == 1 else found[half:]
        return self.answer(200, found, headers)

    def answer(self, status, content, headers):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
print(server.server_address[1], flush=True)
server.serve_forever()
