"""Speed and memory as ratios, side by side in one run: `make bench`, or `python -m bench --help`.

Owns:      a plain fleet of any size (`fleet`), what is measured beside what (`ingesting`, `closing`, `by_hand`), each
           piece in a process of its own (`apart`), and the table (`report`). RESULTS.md keeps what was measured.
           A month of a large fleet, from files to exports, by the commands themselves (`scale`; RESULTS-scale.md).
Owns not:  whether the books are right on odd input; that is the tests' business. Here the answers of unlike programs
           on the same rows must only agree, else the run fails.
"""
