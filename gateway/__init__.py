"""The gateway: forwards LLM calls in the dialect they came in, applies three rules, states facts."""
