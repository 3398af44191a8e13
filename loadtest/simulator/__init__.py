"""A simulator of an SGLang server, for loads that no engine on this machine could bear. Nothing in the
stack uses it by itself: a worker is attached to it with `worker.engine_url`.

It speaks the HTTP that workers need, and OpenAI's chat; it has slots, a pace, and answers made from a hash.
"""
