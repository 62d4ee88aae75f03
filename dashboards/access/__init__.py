"""Who may see and do what, and how they prove who they are.

Owns:      roles and what each may do (`roles`), who asks (`principal`), the store as they may see it (`scope`), API
           tokens (`tokens`), local users (`users`), sessions (`sessions`), sign-in by password and by OpenID Connect
           (`sign_in`, `oidc`), and the gate before every route (`gate`).
Owns not:  who may push records (ingest.senders); what is answered (api, sql, the pages).
Words:     a *principal* is who asks; a *role* is what they may do; a *scope* is the tenants they see, or all of them.
"""
