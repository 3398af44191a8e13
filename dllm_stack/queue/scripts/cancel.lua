-- The client of a job is gone. A waiting job leaves at once; a running one keeps its lease until its
-- worker has stopped the engine and says so. ARGV: id
cancel(ARGV[1])
