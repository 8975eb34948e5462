"""A server over HTTP, and the page that shows why: `denslice serve INDEX`, with the extra `serve`."""
