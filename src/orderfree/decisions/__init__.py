"""Decisions: how to decode for a purpose; `records.py` stores them, `finding.py` and `goals.py` find them."""
