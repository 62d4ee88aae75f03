"""The engine's SQL as people may write it: a sqlglot dialect with a grammar of its own.

sqlglot's own grammar for ClickHouse rewrites what it reads (`if` becomes CASE, a lambda in WITH an extraction from
JSON), keeps what it does not know as a command, and tries one reading after the other. Here each construct has one
rule, what fits none is an error, and no token is read twice: the time to read a text is in proportion to its tokens.

The tree has the words, operators and parentheses of the text in their order. Precedence is left to the engine: what is
printed from the tree has the same ones in the same order. What names something (a table, function, type, parameter or
column) is a node of its own, which `printer` judges.
"""
