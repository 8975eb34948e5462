"""Serve an index, add a document over HTTP with the API key, and search it with urllib alone.
Run: python examples/serve_and_ask.py (needs pip install 'denslice[serve]')"""

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import denslice as ds

KEY = "an-example-key-of-16-or-more-characters"


def ask(url: str, body: dict[str, Any]) -> Any:
    """Send JSON and the API key, and return the JSON of the answer."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=60) as answer:
        return json.load(answer)


def main() -> None:
    """Start a server on a free port, add a document and print why it answers a question."""
    with TemporaryDirectory() as temporary, ds.Index.create(f"{temporary}/my.idx", "bm25") as index:
        command = [sys.executable, "-m", "denslice", "serve", str(index.path), "--writable", "--port", "0"]
        environment = os.environ | {"DENSLICE_API_KEY": KEY}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
            try:
                address = next(server.stdout or iter([])).split()[-1]  # printed once the socket listens
                print(ask(f"{address}/documents", {"documents": [{"id": "fox", "text": "Foxes sleep by day."}]}))
                for hit in ask(f"{address}/search", {"query": "sleeping foxes", "explain": True})["results"][0]["hits"]:
                    terms = {term["token"]: round(term["contribution"], 3) for term in hit["explanation"]["terms"]}
                    print(f"{hit['id']}: {hit['text']} {hit['score']:.3f} = {terms}")
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
