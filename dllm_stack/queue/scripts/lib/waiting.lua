-- Jobs that wait.

-- Does a job wait that may run as soon as there is a slot?
local function anybody_is_ready()
  return redis.call('EXISTS', P .. 'ready:priority', P .. 'ready:default', P .. 'ready:flex') > 0
end

-- Wakes a router if it could do something.
local function wake_router()
  if redis.call('EXISTS', P .. 'free') == 1 and anybody_is_ready()
    and redis.call('EXISTS', P .. 'wake') == 0 then
    redis.call('LPUSH', P .. 'wake', '1')
    redis.call('PEXPIRE', P .. 'wake', MINUTE)
  end
end

-- A pool is not paused any more. What it did not end meanwhile says nothing about its pace.
local function go_on()
  if redis.call('DEL', P .. 'paused') == 1 then
    redis.call('HDEL', P .. 'drain', 'at')
    wake_router()
  end
end

local function count(job, sign)
  for _, scope in ipairs({'pool', job.tier}) do
    if redis.call('HINCRBY', P .. 'waiting_bytes', scope, sign * job.bytes) == 0 then
      redis.call('HDEL', P .. 'waiting_bytes', scope)
    end
    for measure, amount in pairs({jobs = 1, bytes = job.bytes}) do
      local held = P .. 'held:' .. scope .. ':' .. measure
      if redis.call('ZINCRBY', held, sign * amount, job.tenant) == '0' then
        redis.call('ZREM', held, job.tenant)
      end
    end
  end
end

-- `settle_tenant` is due after these two.
local function enqueue(job)
  redis.call('ZADD', P .. 'waiting:' .. job.tier, job.order, job.id)
  redis.call('ZADD', P .. 'line:' .. job.tier .. ':' .. job.tenant, job.order, job.id)
  count(job, 1)
end

local function dequeue(job)
  redis.call('ZREM', P .. 'waiting:' .. job.tier, job.id)
  redis.call('ZREM', P .. 'line:' .. job.tier .. ':' .. job.tenant, job.id)
  count(job, -1)
end
