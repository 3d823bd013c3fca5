"""A receiver in the manner of CGI: it reads exactly CONTENT_LENGTH bytes, and nothing without one."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

log = open(sys.argv[1], "a", buffering=1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length or 0))
        entry = {"what": body.decode("utf-8", "replace"), "length": length, "type": self.headers.get("Content-Type")}
        entry["chunked"] = "Transfer-Encoding" in self.headers
        entry["attempt"] = int(self.headers["X-Retry-Times"])
        log.write(json.dumps(entry) + "\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
