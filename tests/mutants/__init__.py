"""Do the tests notice? Deliberate faults, one at a time, and what the tests say: `make mutants`, CONTRIBUTING.md.

Owns:      which faults there are (`python`, `sql`), the sample (`draw`), which tests are asked (`areas`), each trial
           in a copy of the tree (`trial`), the score (`report`).
Owns not:  what is true of the product; every other folder of tests/ says that.
Words:     a fault is one change of one file; a mutant is the tree with it. A mutant is caught if a test fails or the
           tests do not come to an end; it survives if they pass, or if no test is there to run.
"""
