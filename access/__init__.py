"""Who may see and do what, and how they prove who they are.

    request ─▶ gate ─▶ authenticator (tokens | sessions) ─▶ principal (roles) ─▶ scope (a store of their rows only)

Owns:      roles and what each may do (`roles`), the authenticated caller (`principal`), the store limited to what they
           may see (`scope`), people (`people`), API tokens (`tokens`), sessions (`sessions`), sign-in by password and
           by OpenID Connect (`sign_in`, `oidc`), the gate before every route (`gate`), and the database of all of it
           (`store`).
Owns not:  who may push records (ingest.senders); the content of answers (api, dashboards).
Words:     a *principal* is an authenticated caller; a *role* is what they may do; the *scope* of a store is the tenants
           they see, or all of them; a token's *scopes* are what it may be used for.

    migrations   the numbered schema of the access store
"""
