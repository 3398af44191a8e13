-- Placed before every script. All keys of a pool begin with KEYS[1], "dllm:{pool}:", whose braces put
-- them into one cluster slot. Times are Redis time in milliseconds, `order` in microseconds.
--
--   job:<id>         hash    a job until its end: body, bytes, gateway, stream, order, state, attempt,
--                            tries, blocks, worker (while running), cancelled (once its client is gone)
--   waiting          zset    id -> order: the time of admission, kept when a job comes back, so that
--                            a job whose worker died is at the front again
--   waiting_bytes    string  bytes of the bodies in `waiting`
--   wake             list    at most one element; routers sleep on it
--   workers          zset    worker -> time at which it counts as dead
--   worker:<w>       hash    card, slots
--   running:<w>      hash    id -> id of the claim in commands:<w>: the leases, and the busy slots
--   commands:<w>     stream  claims and cancels, trimmed by the worker's heartbeat
--   watched          string  time of the last look for dead workers and gateways
--   last_worker      string  there while the pool has, or has just had, a worker
--   gateways         zset    gateway -> time at which it counts as dead
--   owned:<g>        set     the jobs of a gateway
--   replies:<g>      stream  committed blocks and ends, trimmed by the gateway's heartbeat
--   drain            hash    at, interval: time of the last end if somebody waited then, smoothed time
--                            between two ends

local P = KEYS[1]
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local MINUTE = 60000

local function job_key(id)
  return P .. 'job:' .. id
end

local function wake_router()
  if redis.call('ZCARD', P .. 'waiting') > 0 and redis.call('EXISTS', P .. 'wake') == 0 then
    redis.call('LPUSH', P .. 'wake', '1')
    redis.call('PEXPIRE', P .. 'wake', MINUTE)
  end
end

local function enqueue(id, order, bytes)
  redis.call('ZADD', P .. 'waiting', order, id)
  redis.call('INCRBY', P .. 'waiting_bytes', bytes)
end

local function dequeue(id, bytes)
  redis.call('ZREM', P .. 'waiting', id)
  if redis.call('EXISTS', P .. 'waiting') == 1 then
    redis.call('DECRBY', P .. 'waiting_bytes', bytes)
  else
    redis.call('DEL', P .. 'waiting_bytes')
  end
end

local function forget(id, gateway)
  redis.call('DEL', job_key(id))
  redis.call('SREM', P .. 'owned:' .. gateway, id)
end

local function send(gateway, id, worker, attempt, seq, body)
  redis.call('XADD', P .. 'replies:' .. gateway, '*',
    'job', id, 'worker', worker, 'attempt', attempt, 'seq', seq, 'body', body)
end

-- Does this worker hold this attempt of the job? If not, it has been fenced off.
local function holds(id, worker, attempt)
  local job = redis.call('HMGET', job_key(id), 'worker', 'attempt')
  return job[1] == worker and job[2] == attempt
end

-- A lease ends without an answer: the job waits again, unless its client has seen a part of the
-- answer, or it has cost too many workers already. With `uncounted` this lease costs it no try.
-- Returns what became of it.
local function give_back(id, max_tries, lost_body, exhausted_body, uncounted)
  local job = redis.call('HMGET', job_key(id), 'gateway', 'cancelled', 'stream', 'blocks', 'tries',
    'order', 'bytes', 'attempt')
  local gateway = job[1]
  if not gateway then
    return 'gone'
  end
  if job[2] then
    forget(id, gateway)
    return 'cancelled'
  end
  local seen = job[3] == '1' and tonumber(job[4]) > 0
  local tries = uncounted and job[5] - 1 or tonumber(job[5])
  if seen or tries >= tonumber(max_tries) then
    send(gateway, id, '', job[8] + 1, 0, seen and lost_body or exhausted_body)
    forget(id, gateway)
    return 'failed'
  end
  redis.call('HDEL', job_key(id), 'worker')
  redis.call('HSET', job_key(id), 'state', 'waiting', 'blocks', 0, 'tries', tries)
  enqueue(id, job[6], job[7])
  wake_router()
  return 'requeued'
end

local function cancel(id)
  local job = redis.call('HMGET', job_key(id), 'state', 'gateway', 'bytes', 'worker', 'cancelled')
  if job[1] == 'waiting' then
    dequeue(id, job[3])
    forget(id, job[2])
  elseif job[1] == 'running' and not job[5] then
    redis.call('HSET', job_key(id), 'cancelled', 1)
    redis.call('XADD', P .. 'commands:' .. job[4], '*', 'kind', 'cancel', 'job', id)
  end
end

local function drop_worker(worker)
  redis.call('ZREM', P .. 'workers', worker)
  redis.call('DEL', P .. 'worker:' .. worker, P .. 'running:' .. worker, P .. 'commands:' .. worker)
end

local function drop_gateway(gateway)
  local ids = redis.call('SMEMBERS', P .. 'owned:' .. gateway)
  for _, id in ipairs(ids) do
    cancel(id)
  end
  redis.call('ZREM', P .. 'gateways', gateway)
  redis.call('DEL', P .. 'owned:' .. gateway, P .. 'replies:' .. gateway)
  return #ids
end

-- Entries up to and including this id have been read.
local function trim(stream, acked)
  local ms, seq = string.match(acked, '^(%d+)-(%d+)$')
  if redis.call('EXISTS', stream) == 1 then
    redis.call('XTRIM', stream, 'MINID', ms .. '-' .. string.format('%.0f', seq + 1))
  end
end

local function not_after(id, limit)
  local a_ms, a_seq = string.match(id, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(limit, '^(%d+)-(%d+)$')
  a_ms, b_ms = tonumber(a_ms), tonumber(b_ms)
  return a_ms < b_ms or (a_ms == b_ms and tonumber(a_seq) <= tonumber(b_seq))
end
