"""What tenants owe: drafts from the ledger, adjustments, issued invoices and their corrections.

usage (ledger) ─▶ adjustments ─▶ month ─▶ drafts (+ corrections, credits, grants) ─▶ invoices (issued, numbered)
                                                                                     └─▶ issued, credit_notes
explain: the rule and the entries behind a line      rederive: computes an issued invoice again from raw facts
"""
