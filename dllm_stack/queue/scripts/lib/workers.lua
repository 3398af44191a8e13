-- Workers: free slots, and those set aside.

-- Until when a worker is set aside; nil: it is not. Never longer than ever meant: the clock may have gone back.
local function set_aside_until(worker)
  local found = redis.call('ZSCORE', P .. 'set_aside', worker)
  if found and tonumber(found) > NOW + BREAKER_CAP_MS then
    redis.call('ZADD', P .. 'set_aside', NOW + BREAKER_CAP_MS, worker)
    return NOW + BREAKER_CAP_MS
  end
  return found and tonumber(found)
end

-- Recounts a worker's free slots, after anything that may have changed them.
local function settle_worker(worker)
  local slots = tonumber(redis.call('HGET', P .. 'worker:' .. worker, 'slots') or 0)
  local returns_at = set_aside_until(worker)
  if redis.call('EXISTS', P .. 'drained:' .. worker, P .. 'paused:' .. worker) > 0 then
    slots = 0
  elseif returns_at then
    slots = NOW < returns_at and 0 or math.min(slots, 1)
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
  local returns_at = set_aside_until(worker)
  local on_trial = returns_at and NOW >= returns_at
  if on_trial or (not returns_at and failures >= BREAKER_FAILURES) then
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
