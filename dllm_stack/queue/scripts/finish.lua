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

-- The time between two ends says how fast the queue drains, but only while somebody waits.
local last = redis.call('HGET', P .. 'drain', 'at')
if last and redis.call('EXISTS', P .. 'waiting') == 1 then
  local gap = NOW - last
  local interval = redis.call('HGET', P .. 'drain', 'interval')
  redis.call('HSET', P .. 'drain', 'interval', interval and 0.8 * interval + 0.2 * gap or gap)
end
redis.call('HSET', P .. 'drain', 'at', NOW)
redis.call('PEXPIRE', P .. 'drain', 10 * MINUTE)
wake_router()
return 1
