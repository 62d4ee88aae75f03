"""A read-only MCP server: ten questions that an assistant asks of the books, answered with evidence and SQL.

tools    the questions; functions of a client of the HTTP API, so a token sees here what it sees there
queries  the SQL behind the answers, over the views of docs/sql.md
server   the tools as the protocol has them
"""
