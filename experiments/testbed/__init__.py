"""Real bytes and seconds: processes in network namespaces on one machine."""
