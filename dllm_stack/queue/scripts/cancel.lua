-- needs: jobs
-- The client of a job is gone. ARGV: id
cancel(ARGV[1])
