"""Tests of calibration, one file for each."""
