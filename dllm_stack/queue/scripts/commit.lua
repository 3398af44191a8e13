-- A committed block goes to the job's gateway. Safe to repeat: a repeated seq is dropped there.
-- ARGV: id, worker, attempt, seq, body
-- Returns 1, or 0 when the worker no longer holds the job or its client is gone.
local id, worker, attempt = ARGV[1], ARGV[2], ARGV[3]
if not holds(id, worker, attempt) then
  return 0
end
local job = redis.call('HMGET', job_key(id), 'gateway', 'cancelled')
if job[2] then
  return 0
end
redis.call('HINCRBY', job_key(id), 'blocks', 1)
send(job[1], id, worker, attempt, ARGV[4], ARGV[5])
return 1
