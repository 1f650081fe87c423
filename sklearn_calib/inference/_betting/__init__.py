"""Bets against calibration: sequential tests and the evidence of monitors."""
