-- A job ends: its last reply goes out, its slot is free. Safe to repeat.
-- ARGV: id, worker, attempt, seq, body
-- Returns 1, or 0 when the worker no longer held the job.
local id, worker, attempt = ARGV[1], ARGV[2], ARGV[3]
if not holds(id, worker, attempt) then
  return 0
end
local job = redis.call('HMGET', job_key(id), 'gateway', 'cancelled')
redis.call('HDEL', P .. 'running:' .. worker, id)
if not job[2] then
  send(job[1], id, worker, attempt, ARGV[4], ARGV[5])
end
forget(id, job[1])

-- The time between two ends says how fast the queue drains, if somebody waits at both.
if redis.call('EXISTS', P .. 'waiting') == 1 then
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
