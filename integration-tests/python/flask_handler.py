"""A Flask handler like many: takes request.json, acts on it, answers. Served by the plain WSGI server
of Python's library, which knows CONTENT_LENGTH and no chunks."""

import json
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server

from flask import Flask, request

app = Flask(__name__)
log = open(sys.argv[1], "a", buffering=1)


def note(what):
    entry = {"what": what, "length": request.environ.get("CONTENT_LENGTH"), "type": request.environ.get("CONTENT_TYPE")}
    entry["chunked"] = "HTTP_TRANSFER_ENCODING" in request.environ
    entry["attempt"] = int(request.headers["X-Retry-Times"])
    log.write(json.dumps(entry) + "\n")


@app.before_request
def arrived():
    note(request.get_data(cache=True, as_text=True))


@app.post("/callback")
def callback():
    data = request.json
    if data.get("fail"):
        return {"error": "it went wrong, says a handler that answers 200"}, 200
    return {"ok": data["n"]}


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
