-- Workers: free slots, and those set aside.

-- Recounts a worker's free slots, after anything that may have changed them.
local function settle_worker(worker)
  local state = redis.call('HMGET', P .. 'worker:' .. worker, 'slots', 'draining')
  local slots = tonumber(state[1] or 0)
  local set_aside_until = redis.call('ZSCORE', P .. 'set_aside', worker)
  if state[2] then
    slots = 0
  elseif set_aside_until then
    slots = NOW < tonumber(set_aside_until) and 0 or math.min(slots, 1)
  end
  local free = slots - redis.call('HLEN', P .. 'running:' .. worker)
  if free > 0 then
    redis.call('ZADD', P .. 'free', free, worker)
  else
    redis.call('ZREM', P .. 'free', worker)
  end
end

-- A worker has failed on a job. After some in a row, or when the trial fails, it is set aside.
local function worker_failed(worker)
  local key = P .. 'worker:' .. worker
  local failures = redis.call('HINCRBY', key, 'failures', 1)
  local set_aside_until = redis.call('ZSCORE', P .. 'set_aside', worker)
  local on_trial = set_aside_until and NOW >= tonumber(set_aside_until)
  if on_trial or (not set_aside_until and failures >= BREAKER_FAILURES) then
    local trips = redis.call('HINCRBY', key, 'trips', 1)
    redis.call('ZADD', P .. 'set_aside', NOW + math.min(BREAKER_MS * 2 ^ (trips - 1), BREAKER_CAP_MS), worker)
  end
end

local function worker_succeeded(worker)
  if redis.call('HDEL', P .. 'worker:' .. worker, 'failures', 'trips') > 0 then
    redis.call('ZREM', P .. 'set_aside', worker)
  end
end

-- Its leases are to be ended first.
local function drop_worker(worker)
  redis.call('DEL', P .. 'worker:' .. worker, P .. 'running:' .. worker, P .. 'commands:' .. worker)
  for _, key in ipairs({'workers', 'free', 'load', 'set_aside'}) do
    redis.call('ZREM', P .. key, worker)
  end
end
