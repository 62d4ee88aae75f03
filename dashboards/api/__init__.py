"""The HTTP API, `/api/v1`: what the pages and the command line show or do, as JSON.

Owns:      routes, their documents (`documents`), pages of rows (`paging`), errors (`problems`).
Owns not:  any figure: billing computes them; who may ask (access).
Rules:     a route names its action (access.roles) once, as it asks for its caller, whose store is scoped already.
           Decimals are strings, instants UTC with milliseconds, errors problem+json (RFC 9457). Routes are plain
           functions, which the framework runs on worker threads: the event loop waits for nobody.
"""
