"""A small stand-in for the Hugging Face Hub: its HTTP API, as huggingface_hub's own client speaks it, on 127.0.0.1.

Repositories, branches, commits with small files inside and large files by LFS, listings and downloads. Everything is in
memory; `hub.requests` has every request, as (method, path).
"""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_mine"
LARGE = ".safetensors"


class FakeHub:
    """What the hub has: `branches[repository][branch]` is a commit, `commits[commit]` its files."""

    def __init__(self) -> None:
        self.branches: dict[str, dict[str, str]] = {}
        self.commits: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.messages: list[str] = []

    def commit(self, repository: str, branch: str, files: dict[str, bytes]) -> str:
        """A new commit with these files besides those of the branch."""
        whole = {**self.commits[self.branches[repository][branch]], **files}
        name = hashlib.sha1(f"{len(self.commits)}".encode()).hexdigest()
        self.commits[name] = whole
        self.branches[repository][branch] = name
        return name


class Handler(BaseHTTPRequestHandler):
    """The requests; `server.hub` is the hub."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.answer("POST")

    def do_PUT(self):
        self.answer("PUT")

    def do_GET(self):
        self.answer("GET")

    def do_HEAD(self):
        self.answer("HEAD")

    def answer(self, method):
        hub = self.server.hub
        parts = urlsplit(self.path)
        path = unquote(parts.path).strip("/").split("/")
        hub.requests.append((method, "/".join(path)))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path[0] == "lfs":  # an upload to storage, whose address is the permission
            hub.objects[path[1]] = body
            return self.give(b"")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.give({"error": "Invalid username or password."}, 401)
        if path[:3] == ["api", "repos", "create"]:
            return self.create(json.loads(body))
        if path[:2] == ["api", "validate-yaml"]:
            return self.give({"errors": [], "warnings": []})
        if path[:2] == ["api", "models"]:
            return self.model(method, f"{path[2]}/{path[3]}", path[4:], body, parse_qs(parts.query))
        if path[2:] == ["info", "lfs", "objects", "batch"]:
            return self.batch(json.loads(body))
        if path[2] == "resolve":
            return self.resolve(f"{path[0]}/{path[1]}", path[3], "/".join(path[4:]))
        return self.give({"error": f"no such address: {self.path}"}, 404)

    def create(self, asked):
        hub, name = self.server.hub, f"{asked['organization']}/{asked['name']}"
        if name in hub.branches:
            return self.give({"error": "You already created this model repo", "url": f"{self.home}/{name}"}, 409)
        empty = hashlib.sha1(name.encode()).hexdigest()
        hub.commits[empty] = {}
        hub.branches[name], hub.private[name] = (
            {"main": empty},
            asked.get("private") or asked.get("visibility") == "private",
        )
        return self.give({"url": f"{self.home}/{name}", "name": name})

    def model(self, method, name, rest, body, query):
        hub = self.server.hub
        if name not in hub.branches:
            return self.give({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        branches = hub.branches[name]
        kind, wanted = (*rest, "revision", "main")[:2] if len(rest) < 2 else rest[:2]
        if kind == "branch":
            if wanted in branches:
                return self.give({"error": "Reference already exists"}, 409)
            branches[wanted] = branches["main"]
            return self.give({})
        commit = branches.get(wanted, wanted)
        if commit not in hub.commits:
            return self.give({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        files = hub.commits[commit]
        if kind == "preupload":
            asked = json.loads(body)["files"]
            modes = [{"path": f["path"], "uploadMode": _mode(f["path"]), "shouldIgnore": False} for f in asked]
            return self.give({"files": modes})
        if kind == "commit":
            made = hub.commit(name, wanted, self.sent(body))
            url = f"{self.home}/{name}/commit/{made}"
            return self.give({"success": True, "commitOid": made, "commitUrl": url, "hookOutput": ""})
        if kind == "tree":
            listed = [
                {"type": "file", "path": p, "size": len(b), "oid": _blob(b), **_lfs(p, b)} for p, b in files.items()
            ]
            return self.give(listed)
        siblings = [{"rfilename": path} for path in files]
        return self.give(
            {"id": name, "modelId": name, "sha": commit, "private": hub.private[name], "siblings": siblings}
        )

    def sent(self, body):
        """The files of a commit, given as lines of JSON; those in LFS must have been uploaded."""
        hub, files = self.server.hub, {}
        for line in body.decode().splitlines():
            item = json.loads(line)
            if item["key"] == "header":
                hub.messages.append(item["value"]["summary"])
            elif item["key"] == "file":
                files[item["value"]["path"]] = base64.b64decode(item["value"]["content"])
            else:
                assert item["key"] == "lfsFile", item
                files[item["value"]["path"]] = hub.objects[item["value"]["oid"]]
        return files

    def batch(self, asked):
        objects = [
            {**own, "actions": {"upload": {"href": f"{self.home}/lfs/{own['oid']}"}}} for own in asked["objects"]
        ]
        return self.give({"transfer": "basic", "objects": objects})

    def resolve(self, name, wanted, path):
        hub = self.server.hub
        commit = hub.branches.get(name, {}).get(wanted, wanted)
        files = hub.commits.get(commit, {})
        if path not in files:
            return self.give({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        content = files[path]
        etag = hashlib.sha256(content).hexdigest() if _mode(path) == "lfs" else _blob(content)
        return self.give(content, 200, {"ETag": f'"{etag}"', "X-Repo-Commit": commit})

    @property
    def home(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def give(self, answer, status=200, headers=None):
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header(
            "Content-Type", "application/octet-stream" if isinstance(answer, bytes) else "application/json"
        )
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def fake_hub():
    """A hub that answers under `hub.address`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.hub = FakeHub()
        server.hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.hub
        finally:
            server.shutdown()
            thread.join()


def _mode(path):
    return "lfs" if path.endswith(LARGE) else "regular"


def _blob(content):
    """git's name of a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _lfs(path, content):
    if _mode(path) == "regular":
        return {}
    return {"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}
