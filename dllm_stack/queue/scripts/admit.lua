-- needs: dispatch
-- A job enters the queue, or is refused; where nobody is before it, it goes to a free slot at once. Safe to repeat. A job that had been admitted before, and was lost
-- with Redis' data, is refused neither for want of room nor by a pool that drains: it had its place.
-- ARGV: 1 id, 2 body, 3 gateway, 4 tenant, 5 tier, 6 weight, 7 limit, 8 tokens of the prompt, 9 estimated
--       tokens, 10 timeout ms or 0, 11 session, 12 prefixes, 13 attempts so far, 14 token ids committed,
--       15 characters committed, 16 most jobs of its tier, 17 most bytes, 18 most jobs of its tenant,
--       19 most bytes (0: no bound), 20 its request's id if that is another, 21 traceparent (both may be empty)
-- Returns {'ok', what `dispatch` returns of it if it has gone ...} | {'draining'} | {'no_worker'} | {'too_large', pool | tier | tenant, most bytes}
--         | {'full', pool | tier | tenant, jobs | bytes, jobs waiting there, ms between two ends or 0}
local id, body, gateway, tenant, tier = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local size, attempts, answer = #body, tonumber(ARGV[13]), ARGV[14]

if redis.call('EXISTS', job_key(id)) == 1 then
  return {'ok'}
end
if attempts == 0 and redis.call('EXISTS', P .. 'draining') == 1 then
  return {'draining'}
end
if COLD_START_MS == 0 and redis.call('EXISTS', P .. 'last_worker') == 0 then
  return {'no_worker'}
end

local function waiting_in(key)
  return redis.call('ZCARD', P .. key)
end

local function bytes_of(scope)
  return tonumber(redis.call('HGET', P .. 'waiting_bytes', scope) or 0)
end

-- What a tenant has waiting in the pool or in a tier, in jobs | bytes.
local function held(scope, measure)
  return tonumber(redis.call('ZSCORE', P .. 'held:' .. scope .. ':' .. measure, tenant) or 0)
end

local waiting = waiting_in('waiting:priority') + waiting_in('waiting:default') + waiting_in('waiting:flex')
local interval = math.floor(redis.call('HGET', P .. 'drain', 'interval') or 0)

-- How many jobs and bytes are too many with this job.
local function excess(jobs, bytes, most_jobs, most_bytes)
  return most_jobs > 0 and math.max(0, jobs + 1 - most_jobs) or 0,
    most_bytes > 0 and math.max(0, bytes + size - most_bytes) or 0
end

local function full(where, jobs, more_jobs)
  return {'full', where, more_jobs > 0 and 'jobs' or 'bytes', jobs, interval}
end

local looked = 0

-- The newest jobs of these lines that are to go so that there is room, as far as their tenant holds something
-- to `spare`, and none whose answer has begun; nil when that would not do.
local function newest_of(lines, spare, measure, more_jobs, more_bytes)
  local victims = {}
  for _, line in ipairs(lines) do
    for _, victim_id in ipairs(redis.call('ZRANGE', P .. line, 0, SHED_AT_MOST - looked - 1, 'REV')) do
      looked = looked + 1
      local victim = job_of(victim_id)
      if spare <= 0 then
        return nil
      end
      if tonumber(victim.tokens) == 0 then
        victims[#victims + 1] = victim
        more_jobs, more_bytes = more_jobs - 1, more_bytes - victim.bytes
        spare = spare - (measure == 'jobs' and 1 or victim.bytes)
        if more_jobs <= 0 and more_bytes <= 0 then
          return victims
        end
      end
    end
    if looked >= SHED_AT_MOST then
      return nil
    end
  end
end

-- Those of whoever holds most of what there is too much of, in this tier and those below, as long as it holds
-- more than this tenant would: nobody can fill the queue for the others.
local function of_largest(scope, lower_tiers, more_jobs, more_bytes)
  local measure = more_jobs > 0 and 'jobs' or 'bytes'
  local mine = held(scope, measure) + (measure == 'jobs' and 1 or size)
  local key = P .. 'held:' .. scope .. ':' .. measure
  local largest = redis.call('ZRANGE', key, 0, HOLDERS_AT_MOST - 1, 'REV', 'WITHSCORES')
  for i = 1, #largest, 2 do
    local lines = {}
    for j, each in ipairs(lower_tiers) do
      lines[j] = 'line:' .. each .. ':' .. largest[i]
    end
    local victims = newest_of(lines, largest[i + 1] - mine, measure, more_jobs, more_bytes)
    if victims or looked >= SHED_AT_MOST then
      return victims
    end
  end
end

-- This tier and those below it, the lowest first.
local function up_to_this_tier()
  local found = {}
  for i = #TIERS, 1, -1 do
    found[#found + 1] = TIERS[i]
    if TIERS[i] == tier then
      return found
    end
  end
end

if attempts == 0 then
  for _, bound in ipairs({{'tenant', ARGV[19]}, {'tier', ARGV[17]}, {'pool', MAX_WAITING_BYTES}}) do
    local most_bytes = tonumber(bound[2])
    if most_bytes > 0 and size > most_bytes then
      return {'too_large', bound[1], most_bytes}
    end
  end
  local in_tier, in_tenant = waiting_in('waiting:' .. tier), held('pool', 'jobs')
  local jobs, bytes = excess(in_tenant, held('pool', 'bytes'), tonumber(ARGV[18]), tonumber(ARGV[19]))
  if jobs + bytes > 0 then
    return full('tenant', in_tenant, jobs)
  end
  local tier_jobs, tier_bytes = excess(in_tier, bytes_of(tier), tonumber(ARGV[16]), tonumber(ARGV[17]))
  local pool_jobs, pool_bytes = excess(waiting, bytes_of('pool'), MAX_WAITING_JOBS, MAX_WAITING_BYTES)
  local tier_is_full = tier_jobs + tier_bytes > 0
  if tier_is_full or pool_jobs + pool_bytes > 0 then
    local victims
    if tier_is_full then
      victims = of_largest(tier, {tier}, math.max(tier_jobs, pool_jobs), math.max(tier_bytes, pool_bytes))
    else
      if tier ~= 'flex' then
        victims = newest_of({'waiting:flex'}, math.huge, 'jobs', pool_jobs, pool_bytes)
        looked = 0
      end
      victims = victims or of_largest('pool', up_to_this_tier(), pool_jobs, pool_bytes)
    end
    if not victims then
      return tier_is_full and full('tier', in_tier, tier_jobs) or full('pool', waiting, pool_jobs)
    end
    for _, victim in ipairs(victims) do
      send_verdict(victim, 'shed', waiting, interval)
      leave_queue(victim)
    end
  end
end

-- Behind everybody who waits, even when the clock has gone back.
local order = TIME[1] * 1000000 + TIME[2]
local last = redis.call('ZRANGE', P .. 'waiting:' .. tier, -1, -1, 'WITHSCORES')
if last[2] then
  order = math.max(order, last[2] + 1)
end
local timeout = tonumber(ARGV[10])
local job = {
  id = id, gateway = gateway, tenant = tenant, tier = tier, weight = ARGV[6], limit = ARGV[7],
  prompt = ARGV[8], estimate = ARGV[9], bytes = size, order = string.format('%.0f', order),
  deadline = timeout > 0 and NOW + timeout or 0, session = ARGV[11], prefixes = ARGV[12],
  state = 'waiting', attempt = attempts, tries = 0, tokens = #answer / 4, characters = ARGV[15],
}
if ARGV[20] ~= '' then
  job.request = ARGV[20]
end
if ARGV[21] ~= '' then
  job.trace = ARGV[21]
end
local fields = {}
for field, value in pairs(job) do
  if field ~= 'id' then
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
end
redis.call('HSET', job_key(id), unpack(fields))
redis.call('SET', P .. 'body:' .. id, body)
if #answer > 0 then
  redis.call('SET', P .. 'answer:' .. id, answer)
end
if timeout > 0 then
  redis.call('ZADD', P .. 'deadlines', NOW + timeout, id)
end
local is_next = not anybody_is_ready()
enqueue(job)
settle_tenant(tenant)
redis.call('SADD', P .. 'owned:' .. gateway, id)
redis.call('ZADD', P .. 'gateways', NOW + TTL_MS, gateway)
-- Whoever is ready has woken a router already, which is on its way. Where many workers are free, to look at all
-- of them for one job costs Redis more than a router's trip, which is for several.
local at_once = is_next and redis.call('ZCARD', P .. 'free') <= FEW_WORKERS
local dispatched = at_once and dispatch(1) or {}
if dispatched[1] then
  tally('at_once:' .. tier)
else
  wake_router()
end
return {'ok', dispatched[1]}
