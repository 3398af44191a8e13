-- needs: leases
-- A job ends: its last reply goes out, its slot is free. Safe to repeat.
-- ARGV: 1 id, 2 worker, 3 attempt, 4 tokens before the reply, 5 characters before, 6 body, 7 tokens used,
--       8 outcome
-- Returns 1, or 0 when the worker no longer held the job.
local id, worker = ARGV[1], ARGV[2]
if not holds(id, worker, ARGV[3]) then
  return 0
end
local job = job_of(id)
if tonumber(ARGV[4]) > tonumber(job.tokens) then
  -- Redis has lost a part of the answer: the next attempt makes it again.
  give_back(job, 'Redis lost a part of the answer')
  wake_router()
  return 1
end
if ARGV[8] == 'completed' then
  worker_succeeded(worker)
elseif ARGV[8] == 'failed' then
  worker_failed(worker)
end
if not job.cancelled then
  send(job, worker, ARGV[4], ARGV[5], ARGV[6])
end
end_lease(job, math.max(ARGV[7] - job.begun, used_until_now(job)))
forget(job)

-- The time between two ends says how fast the queue drains, if somebody waits at both.
if anything_waits() then
  local drain = redis.call('HMGET', P .. 'drain', 'at', 'interval')
  if drain[1] then
    local gap = math.max(0, NOW - drain[1])
    redis.call('HSET', P .. 'drain', 'interval', drain[2] and 0.8 * drain[2] + 0.2 * gap or gap)
  end
  redis.call('HSET', P .. 'drain', 'at', NOW)
  redis.call('PEXPIRE', P .. 'drain', 10 * MINUTE)
else
  redis.call('HDEL', P .. 'drain', 'at')
end
wake_router()
return 1
