"""What programs ask over HTTP: the JSON API at `/api/v1`, SQL, OpenCost's format and `/metrics`.

Owns:      putting the API together (`app`), the caller of a route (`caller`), pages of rows (`paging`), errors
           (`problems`), applied files (`applied_files`), OpenCost's format (`opencost`), Prometheus's (`metrics`).
Owns not:  any figure: billing computes them; who may ask (access); pages (dashboards); the documents that routes answer
           with: the client imports those without a server (gpuledger.documents).

    routes   the API's routes, a module for each kind of thing; a new route goes there
    sql      SQL for analysts in ClickHouse's HTTP interface: the checker, the workers that run it, saved queries

Rules:     a route names its action (access.roles) once, where it asks for its caller, whose store is already scoped.
           Decimals are strings, instants UTC with milliseconds, errors problem+json (RFC 9457). Routes are plain
           functions, which the framework runs on worker threads: the event loop never blocks.
"""
