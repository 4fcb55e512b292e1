"""A small server with those answers of the Hugging Face hub that a download needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

REVISION = "0123456789abcdef0123456789abcdef01234567"


def _handler(name: str, folder: Path) -> type[BaseHTTPRequestHandler]:
    files = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(True)

        def do_HEAD(self) -> None:
            self._answer(False)

        def _answer(self, with_body: bool) -> None:
            place = urlsplit(self.path).path
            if place in (f"/api/models/{name}/revision/main", f"/api/models/{name}/revision/{REVISION}"):
                siblings = [{"rfilename": file} for file in files]
                self._send(_json({"id": name, "sha": REVISION, "siblings": siblings}), with_body)
            elif place == f"/api/models/{name}/tree/{REVISION}":
                tree = [
                    {"type": "file", "path": file, "size": len(files[file]), "oid": _oid(files[file])} for file in files
                ]
                self._send(_json(tree), with_body)
            elif (file := place.rpartition("/")[2]) in files and place == f"/{name}/resolve/{REVISION}/{file}":
                self._send(files[file], with_body, {"ETag": f'"{_oid(files[file])}"', "X-Repo-Commit": REVISION})
            else:
                self._send(b"", with_body, {"X-Error-Code": "RepoNotFound"}, 404)

        def _send(self, body: bytes, with_body: bool, headers: dict[str, str] | None = None, status: int = 200) -> None:
            self.send_response(status)
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def hub(name: str, folder: Path) -> Iterator[str]:
    """The address of a hub that has one checkpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(name, folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
