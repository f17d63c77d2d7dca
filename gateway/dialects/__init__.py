"""The dialects: each a table of facts on top, then a few methods; no state, no I/O."""
