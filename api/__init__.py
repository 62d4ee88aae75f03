"""What programs ask over HTTP: the JSON API at `/api/v1`, SQL, OpenCost's format and `/metrics`.

Owns:      putting the API together (`app`), who calls (`caller`), pages of rows (`paging`), errors (`problems`), files
           that people apply (`applied_files`), OpenCost's format (`opencost`), Prometheus's (`metrics`).
Owns not:  any figure: billing computes them; who may ask (access); pages (dashboards); the documents that routes answer
           with: the client imports those without a server (gpuledger.documents).

    routes   the API's routes, a module for each kind of thing
    sql      SQL for analysts in ClickHouse's HTTP interface: the checker, the workers that run it, saved queries

Rules:     a route names its action (access.roles) once, as it asks for its caller, whose store is scoped already.
           Decimals are strings, instants UTC with milliseconds, errors problem+json (RFC 9457). Routes are plain
           functions, which the framework runs on worker threads: the event loop waits for nobody.
"""
