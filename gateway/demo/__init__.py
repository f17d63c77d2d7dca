"""A scripted LLM server and its callers: for `thinkcap demo`, for compose, for tests."""
