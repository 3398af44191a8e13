-- May a request begin? If so it is charged, once: asked again, the answer is the same.
-- ARGV: id, known, ago, limits (-1: none) of requests, tokens and requests open at once, tokens it will need, tokens
-- it may need besides, how long it counts as open without `renew`, for how long nothing is allowed when it is
-- not known what was used
-- Returns: ok | unknown | too_large | requests | tokens | concurrency, how long to wait, since, tokens reserved,
-- requests and tokens charged, and in how long nothing of them will be

local id = ARGV[1]
local most_requests, most_tokens, most_open = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local needed, guess, lease_ms, blind_ms = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])

-- In how long so many of one kind, r or t, are charged no more.
local function gone_in(kind, amount)
  local first = 0
  repeat
    local buckets = redis.call('ZRANGE', P .. 'buckets', first, first + AT_ONCE - 1)
    for _, bucket in ipairs(buckets) do
      amount = amount - (redis.call('HGET', STATE, kind .. bucket) or 0)
      if amount <= 0 then
        return bucket + WINDOW_MS + BUCKET_MS - NOW
      end
    end
    first = first + AT_ONCE
  until #buckets < AT_ONCE
  return WINDOW_MS
end

local function verdict()
  local rates = most_requests >= 0 or most_tokens >= 0
  local blind = state.lost + math.min(blind_ms, rates and WINDOW_MS or lease_ms) - NOW
  if blind > 0 then
    return 'unknown', blind
  end
  if most_tokens >= 0 and needed > most_tokens then
    return 'too_large', 0
  end
  local found, wait = 'ok', 0
  if most_open >= 0 and redis.call('ZCOUNT', P .. 'leases', '(' .. digits(NOW), '+inf') >= most_open then
    found, wait = 'concurrency', OPEN_WAIT_MS
  end
  if most_tokens >= 0 and state.tokens + state.debt + needed > most_tokens then
    found, wait = 'tokens', math.max(wait, gone_in('t', state.tokens + state.debt + needed - most_tokens))
  end
  if most_requests >= 0 and state.requests + 1 > most_requests then
    found, wait = 'requests', math.max(wait, gone_in('r', state.requests + 1 - most_requests))
  end
  return found, wait
end

open(ARGV[2], ARGV[3], most_tokens)
if most_tokens >= 0 then
  guess = math.max(0, math.min(guess, most_tokens - needed))
end
needed = needed + guess
local found, wait, reserved = 'ok', 0, needed
local before = redis.call('HGET', P .. 'taken', id)
if before then
  reserved = tonumber(before:match(' (%d+)$'))
elseif redis.call('ZSCORE', P .. 'done', id) then
  reserved = 0
else
  found, wait = verdict()
  if found == 'ok' then
    local bucket = charge(1, needed)
    redis.call('HSET', P .. 'taken', id, bucket .. ' ' .. digits(needed))
    redis.call('ZADD', P .. 'leases', digits(NOW + lease_ms), id)
  end
end
local newest = redis.call('ZRANGE', P .. 'buckets', -1, -1)[1]
local empty_in = newest and newest + WINDOW_MS + BUCKET_MS - NOW or 0
local paid_in = most_tokens > 0 and math.floor(state.debt / most_tokens * WINDOW_MS) or 0
close()
return {
  found, wait, state.since, reserved, state.requests, state.tokens + state.debt,
  state.requests > 0 and empty_in or 0, state.tokens + state.debt > 0 and empty_in + paid_in or 0,
}
