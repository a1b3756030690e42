"""A certificate of a server's own, made by openssl, and a web server that shows it."""

from __future__ import annotations

import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NEW = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"


def certificate(place, name):
    """The files of a certificate for that name, and of its key."""
    files = place / f"{name}.pem", place / f"{name}.key"
    words = [*NEW.split(), "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(["openssl", *words, "-keyout", files[1], "-out", files[0]], check=True, capture_output=True)
    return files


def shown(files):
    """The context of a server that shows it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    return context


class _Says(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        body = b"over TLS\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def site(files):
    """A web server on the loopback, with TLS; `asked` are the paths that it was asked for."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Says)
    server.asked = []
    server.socket = shown(files).wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
