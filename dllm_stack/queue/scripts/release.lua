-- needs: leases
-- A worker gives a job back without an answer.
-- ARGV: 1 id, 2 worker, 3 attempt, 4 counts as a try of the job (0|1), 5 as a failure of the worker (0|1)
-- Returns what became of the job, or 'fenced' when the worker no longer held it.
local id, worker = ARGV[1], ARGV[2]
if not holds(id, worker, ARGV[3]) then
  return 'fenced'
end
if ARGV[5] == '1' then
  worker_failed(worker)
end
local fate = give_back(job_of(id), 'a worker gave it back', ARGV[4] == '0')
wake_router()
return fate
