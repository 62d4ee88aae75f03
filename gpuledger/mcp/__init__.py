"""A read-only MCP server: questions about the books, answered with evidence and the SQL behind it.

tools     the questions: functions of an HTTP API client, so a token sees here what it sees there
queries   the SQL behind the answers, over the views in docs/sql.md
server    the tools in the Model Context Protocol
"""
