-- Texts of facts that are no plain ASCII, and what stands for them in FOCUS's ids and names (ascii.py).
CREATE TABLE {names:Identifier} (text String, id String, name String) ENGINE = Memory
