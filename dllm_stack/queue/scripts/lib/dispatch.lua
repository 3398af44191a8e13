-- needs: jobs, workers
-- Waiting jobs go to free slots. Strict between tiers, but for the share of those that have waited long;
-- fair between the tenants of a tier; first come, first served within a tenant.

local NOW_US = TIME[1] * 1000000 + TIME[2]

local UNPACK_AT_MOST = 1000 -- values that Lua's stack takes at once, and more

-- Workers with a free slot. Whether one lives is looked up when it is chosen: almost all do, and there may be
-- thousands.
local function read_candidates()
  local names, candidates = redis.call('ZRANGE', P .. 'free', 0, -1), {}
  for first = 1, #names, UNPACK_AT_MOST do
    local last = math.min(first + UNPACK_AT_MOST - 1, #names)
    for i, load in ipairs(redis.call('ZMSCORE', P .. 'load', unpack(names, first, last))) do
      candidates[#candidates + 1] = {name = names[first + i - 1], load = tonumber(load or 0)}
    end
  end
  return candidates
end

local function has_aged(tier)
  local oldest = redis.call('ZRANGE', P .. 'waiting:' .. tier, 0, 0, 'WITHSCORES')[2]
  return oldest and NOW - oldest / 1000 > AGEING_MS
end

-- Tiers in the order in which this turn asks them. Every AGED_SHAREth turn is for a lower one whose oldest
-- job has waited too long; two such take turns.
local function tiers_of(turn)
  if turn % AGED_SHARE > 0 then
    return TIERS
  end
  local aged = turn / AGED_SHARE % 2 == 0 and {'flex', 'default'} or {'default', 'flex'}
  local order = {}
  for _, tier in ipairs(aged) do
    if has_aged(tier) then
      order[#order + 1] = tier
    end
  end
  for _, tier in ipairs(TIERS) do
    order[#order + 1] = tier
  end
  return order
end

-- The next job, and the tag of its tenant; nil when none may run.
local function next_job(turn)
  for _, tier in ipairs(tiers_of(turn)) do
    local first = redis.call('ZRANGE', P .. 'ready:' .. tier, 0, 0, 'WITHSCORES')
    if first[1] then
      return job_of(next_of(tier, first[1])), tonumber(first[2])
    end
  end
end

-- A job is not tried again where it has just failed, as long as there is another place.
local function without_failed(job, candidates)
  local others = {}
  for _, candidate in ipairs(job.failed_on and candidates or {}) do
    if candidate.name ~= job.failed_on then
      others[#others + 1] = candidate
    end
  end
  return others[1] and others or candidates
end

local function remove(worker, candidates)
  for i, candidate in ipairs(candidates) do
    if candidate == worker then
      table.remove(candidates, i)
      return
    end
  end
end

-- Looks it up when it is chosen for the first time, and also how many slots it has free.
local function lives(worker)
  if not worker.free then
    local dies_at = redis.call('ZSCORE', P .. 'workers', worker.name)
    if dies_at and tonumber(dies_at) > NOW then
      worker.free = tonumber(redis.call('ZSCORE', P .. 'free', worker.name))
    end
  end
  return worker.free
end

-- The worker for a job; nil when none is left. Takes those that are dead from the candidates.
local function pick(job, candidates)
  while #candidates > 0 do
    local best = without_failed(job, candidates)
    for _, policy in ipairs(POLICIES) do
      if #best == 1 then
        break
      end
      best = policy.best(job, best)
    end
    local worker = best[math.random(#best)]
    if lives(worker) then
      for _, policy in ipairs(POLICIES) do
        if policy.chosen then
          policy.chosen(job, worker.name)
        end
      end
      return worker
    end
    remove(worker, candidates)
  end
end

local function share(job, tag)
  local now = math.max(virtual_time(job.tier), tag)
  redis.call('HSET', P .. 'fair', job.tier, now)
  redis.call('ZADD', P .. 'ready:' .. job.tier, tag + job.estimate / job.weight, job.tenant)
  redis.call('ZREMRANGEBYSCORE', P .. 'tags:' .. job.tier, '-inf', now)
end

local function run(job, worker)
  local attempt = job.attempt + 1
  dequeue(job)
  redis.call('HSET', job_key(job.id), 'state', 'running', 'worker', worker, 'attempt', attempt,
    'tries', job.tries + 1, 'begun', job.tokens,
    'dispatched', string.format('%.0f', NOW_US))
  local claim = {'kind', 'claim', 'attempt', attempt, 'body', redis.call('GET', P .. 'body:' .. job.id)}
  if job.tokens ~= '0' then
    claim[#claim + 1] = 'answer'
    claim[#claim + 1] = redis.call('GET', P .. 'answer:' .. job.id)
    claim[#claim + 1] = 'characters'
    claim[#claim + 1] = job.characters
    tally('continued')
  end
  local claim_id = redis.call('XADD', P .. 'commands:' .. worker, '*', unpack(claim))
  redis.call('HSET', P .. 'running:' .. worker, job.id, claim_id)
  redis.call('ZINCRBY', P .. 'load', job.estimate, worker)
  redis.call('HINCRBY', P .. 'running', job.tenant, 1)
  settle_tenant(job.tenant)
  local waited = math.max(0, NOW_US - job.order)
  return {job.id, job.tier, worker, attempt, waited, tonumber(job.tokens), job.request or '', job.trace or ''}
end

-- Returns {{id, tier, worker, attempt, microseconds waited, tokens committed, request, traceparent}, ...}
local function dispatch(at_most)
  if redis.call('EXISTS', P .. 'paused') == 1 then
    return {}
  end

  math.randomseed(TIME[2])
  local candidates, dispatched, touched = read_candidates(), {}, {}
  local turn = tonumber(redis.call('HGET', P .. 'fair', 'turn') or 0)
  local handled = 0
  while handled < at_most and #candidates > 0 do
    local job, tag = next_job(turn + 1)
    if not job then
      break
    end
    handled = handled + 1
    if job.deadline ~= '0' and tonumber(job.deadline) <= NOW then
      call_off(job, 'expired')
    else
      local worker = pick(job, candidates)
      if not worker then
        break
      end
      turn = turn + 1
      share(job, tag)
      dispatched[#dispatched + 1] = run(job, worker.name)
      touched[worker.name] = true
      worker.free, worker.load = worker.free - 1, worker.load + job.estimate
      if worker.free == 0 then
        remove(worker, candidates)
      end
    end
  end
  if #dispatched > 0 then
    redis.call('HSET', P .. 'fair', 'turn', turn)
    for worker in pairs(touched) do
      settle_worker(worker)
    end
  end
  if handled == at_most then
    wake_router()
  end
  return dispatched
end
