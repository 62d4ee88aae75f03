"""The ledger in the terms of OpenCost's allocation API, for tools that read OpenCost.

Owns:      what its parameters mean (`query`), the answer from closed hours (`allocation`) and its JSON (`document`).
Owns not:  HTTP (api.opencost) or the command (gpuledger); prices and hours, which are the ledger's.
Words:     OpenCost's *namespace* is our project, its *pod* our workload; tenant and queue are *labels*. *Idle* is what
           nobody held (our unallocated), not what a holder left unused. docs/opencost.md has the whole table.
"""
