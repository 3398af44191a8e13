"""Where the CPU time of a request goes, process by process."""
