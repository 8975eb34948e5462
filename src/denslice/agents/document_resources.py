"""Documents as resources, which people attach to a conversation: `denslice://documents/ID`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from urllib.parse import quote

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.types import Resource

from denslice.agents.agent_calls import call_on, on_a_line
from denslice.agents.document_parts import from_character
from denslice.index.index import Index
from denslice.index.listing import list_docs

TEMPLATE = "denslice://documents/{+id}"
LISTED = 100  # documents that a client is told of; any other can be read too


def document_uri(id: str) -> str:
    """Return the address of a document."""
    return f"denslice://documents/{quote(id, safe='/')}"


@dataclass(frozen=True)
class DocumentResources:
    """The documents of an index as resources. Each is cut where the budget of tokens ends."""

    index: Index
    tokens: int

    def read(self, id: str) -> str:
        """Return the text of a document: id, title, metadata and text."""
        try:
            with call_on(self.index) as warnings:
                reader = self.index.reader
                doc, places = reader.get(id), reader.places(id)
                if doc is not None and places is not None:
                    return from_character(doc, len(places), 0, self.tokens, warnings).readable()
        except ToolError as error:
            raise ResourceError(str(error)) from error
        raise ResourceNotFoundError(f"no document has the id {id!r}")

    def listed(self) -> list[Resource]:
        """Return the first documents, as they are stored."""
        with call_on(self.index):
            some = list(islice(list_docs(self.index.reader, None), LISTED))
        return [
            Resource(uri=document_uri(doc.id), name=doc.id, title=on_a_line(doc.title) or None, mime_type="text/plain")
            for doc in some
        ]
