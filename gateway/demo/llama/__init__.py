"""A real llama.cpp server with models that say what they are told to: for `thinkcap demo --live` and the live tests."""
