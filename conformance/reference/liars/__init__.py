"""Brokers that are wrong on purpose, each in exactly one documented way."""
