"""Sounds as features."""
