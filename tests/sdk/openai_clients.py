"""openai's clients as the tests of both its dialects have them."""

import openai


def client(url: str) -> openai.OpenAI:
    """A client that never tries twice."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)


def aclient(url: str) -> openai.AsyncOpenAI:
    """The same for async code."""
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
