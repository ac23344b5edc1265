"""Processes with bounds of time and memory, and without files and sockets, for work on what strangers wrote."""
