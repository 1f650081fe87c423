"""Arithmetic on grouped outcomes; numpy and scipy only, inputs are trusted."""
