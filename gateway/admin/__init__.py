"""The admin API: pools, workers, modes, tenants and keys, on a port of its own."""
