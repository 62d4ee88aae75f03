"""Who may see and do what, and how they prove who they are.

Owns:      roles and what each may do (`roles`), who asks (`principal`), the store as they may see it (`scope`), people
           (`people`), API tokens (`tokens`), sessions (`sessions`), sign-in by password and by OpenID Connect
           (`sign_in`, `oidc`), the gate before every route (`gate`), and the store that all of it is in (`store`).
Owns not:  who may push records (ingest.senders); what is answered (api, dashboards).
Words:     a *principal* is who asks; a *role* is what they may do; a *scope* is the tenants they see, or all of them.

    migrations   the numbered schema of the access store
"""
