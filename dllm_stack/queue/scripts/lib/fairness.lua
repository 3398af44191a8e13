-- Start-time fair queueing between the tenants of a tier. Each tenant has a tag, the virtual time of its
-- next start; the lowest is served, and moves on by the tokens it gets over its weight. Whoever comes
-- starts at the virtual time of the tier: the past earns nothing.

local function virtual_time(tier)
  return tonumber(redis.call('HGET', P .. 'fair', tier) or 0)
end

local function next_of(tier, tenant)
  return redis.call('ZRANGE', P .. 'line:' .. tier .. ':' .. tenant, 0, 0)[1]
end

-- Puts a tenant where it belongs, after its waiting or running jobs have changed.
local function settle_tenant(tenant)
  local running = tonumber(redis.call('HGET', P .. 'running', tenant) or 0)
  for _, tier in ipairs(TIERS) do
    local ready, tags = P .. 'ready:' .. tier, P .. 'tags:' .. tier
    local tag = redis.call('ZSCORE', ready, tenant)
    local id, may_run = next_of(tier, tenant), false
    if id then
      local limit = tonumber(redis.call('HGET', job_key(id), 'limit'))
      may_run = limit == 0 or running < limit
    end
    if may_run and not tag then
      local ahead = redis.call('ZSCORE', tags, tenant)
      redis.call('ZADD', ready, math.max(virtual_time(tier), tonumber(ahead or 0)), tenant)
      redis.call('ZREM', tags, tenant)
    elseif tag and not may_run then
      redis.call('ZREM', ready, tenant)
      if tonumber(tag) > virtual_time(tier) then
        redis.call('ZADD', tags, tag, tenant)
      end
    end
  end
end

-- A tenant has used so many tokens more, or fewer, than it was charged for.
local function charge(job, tokens)
  local by = tokens / job.weight
  if by == 0 or redis.call('ZADD', P .. 'ready:' .. job.tier, 'XX', 'INCR', by, job.tenant)
    or redis.call('ZADD', P .. 'tags:' .. job.tier, 'XX', 'INCR', by, job.tenant) then
    return
  end
  if by > 0 then
    redis.call('ZADD', P .. 'tags:' .. job.tier, virtual_time(job.tier) + by, job.tenant)
  end
end

-- What the tenant of a running job has been charged for this lease with so many tokens of the answer there.
local function charged(job, tokens)
  return math.max(job.estimate, job.prompt + tokens - job.begun)
end

-- A pool with nothing to share starts anew.
local function forget_shares_when_idle()
  if not anything_waits() and redis.call('EXISTS', P .. 'running') == 0 then
    redis.call('DEL', P .. 'fair', P .. 'tags:priority', P .. 'tags:default', P .. 'tags:flex')
  end
end
