"""A live page while a sweep runs: served on this machine alone, refreshed as records arrive."""

from __future__ import annotations

import errno
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ablations.errors import UserError
from ablations.records import Plan
from ablations.report import page

HOST = "127.0.0.1"
PORT = 8321

Plans = Callable[[], Sequence[Plan]]
Running = Callable[[Sequence[Plan]], Sequence[Mapping[str, Any]]]


class Live(ThreadingHTTPServer):
    """Serves `/` (the page), `/state` (what the page asks every two seconds) and `/render/`.

    plans: what to show, asked anew each time, as another study may have begun. running: the cells
    under way, rows of `ablations status`. port: 0 for any that is free, None for `PORT` or, where
    that is taken, any. Raises UserError for a port that cannot be had.
    """

    daemon_threads = True

    def __init__(
        self, plans: Plans, results: Path, running: Running, port: int | None = None
    ) -> None:
        """Bind the port."""
        self.results = results
        self._plans = plans
        self._running = running
        self._built: tuple[str, str] | None = None
        self._lock = threading.Lock()
        try:
            super().__init__((HOST, PORT if port is None else port), _Handler)
        except OSError as problem:
            if problem.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            if port is not None:
                raise UserError(
                    f"port {port} cannot be had ({problem.strerror}): give another --port"
                ) from None
            super().__init__((HOST, 0), _Handler)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def state(self) -> dict[str, Any]:
        """Return a name for what there is to show, and the cells that are under way."""
        plans = self._plans()
        sums = hashlib.sha256()
        for plan in plans:
            sums.update(f"{plan.study.name} {plan.name}\n".encode())
            for cell in plan.cells:
                if (self.results / "cells" / cell.hash).exists():
                    sums.update(cell.hash.encode())
        return {"state": sums.hexdigest()[:16], "running": list(self._running(plans))}

    def text(self) -> str:
        """Return the page, built again where something has changed."""
        with self._lock:
            state = self.state()["state"]
            if self._built is None or self._built[0] != state:
                self._built = state, page.render(self._plans(), self.results, live=True)
            return self._built[1]


class _Handler(BaseHTTPRequestHandler):
    server: Live

    def do_GET(self) -> None:
        # A page elsewhere must not read this one through a name that it points here.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (HOST, "localhost"):
            self.send_error(403)
            return
        path = unquote(urlsplit(self.path).path)
        try:
            if path == "/":
                self._send(self.server.text().encode(), "text/html; charset=utf-8")
            elif path == "/state":
                self._send(json.dumps(self.server.state()).encode(), "application/json")
            elif path.startswith("/render/"):
                self._file(path)
            else:
                self.send_error(404)
        except UserError as problem:
            self._send(str(problem).encode(), "text/plain; charset=utf-8", 503)

    def _file(self, path: str) -> None:
        folder = (self.server.results / "render").resolve()
        file = (self.server.results / path.lstrip("/")).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            self.send_error(404)
            return
        self._send(file.read_bytes(), "text/html; charset=utf-8")

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: requests are not worth a line on the terminal."""
