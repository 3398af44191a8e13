-- A worker gives a job back without an answer.
-- ARGV: id, worker, attempt, most tries, lost body, exhausted body, counts as a try (0|1)
-- Returns what became of the job, or 'fenced' when the worker no longer held it.
local id, worker = ARGV[1], ARGV[2]
if not holds(id, worker, ARGV[3]) then
  return 'fenced'
end
redis.call('HDEL', P .. 'running:' .. worker, id)
wake_router()
return give_back(id, ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '0')
