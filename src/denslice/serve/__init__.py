"""The HTTP server and its search page: `denslice serve INDEX`. Needs the extra `serve`."""
