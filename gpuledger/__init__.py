"""Top floor: the command line, settings, and the processes put together.

Owns not: any decision. A command parses its arguments, calls one function of a lower floor and prints the answer.
"""

__version__ = "0.1.0"
