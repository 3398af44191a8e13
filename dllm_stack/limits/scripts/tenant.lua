-- Placed before every script. All keys of a tenant begin with KEYS[1], "dllm:{limits:<tenant>}:", whose braces
-- put them into one cluster slot. Times are Redis time in milliseconds, <b> the beginning of a bucket of
-- BUCKET_MS. All keys disappear once the tenant has sent nothing for a few minutes.
--
--   state     hash   since (when it was made, in microseconds: its name), server (the one that wrote it last),
--                    lost (what was used before this time is not known), requests and tokens (charged within
--                    WINDOW_MS), debt (tokens used beyond what was reserved and not charged yet),
--                    r<b> and t<b>: the requests and tokens charged in one bucket
--   buckets   zset   <b> -> <b>
--   taken     hash   id of a request -> its bucket and the tokens reserved for it, until it is settled
--   leases    zset   id of an open request -> until when it counts as open
--   done      zset   id of a settled request -> when it was settled

local P = KEYS[1]
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local STATE = P .. 'state'
local DAY_MS = 86400000
local state

local function digits(number)
  return string.format('%.0f', number)
end

-- The server that runs this script, by its run id, and when it was started.
local server = function()
  local info = redis.call('INFO', 'server')
  return info:match('run_id:(%x+)'), NOW - info:match('uptime_in_seconds:(%d+)') * 1000
end

-- A server that is not the one that wrote last was restarted, or follows one that died: whether it has all that
-- was written, nobody knows. Neither does a server that has nothing of a tenant, unless it has run for all of
-- the window; and if whoever asks has seen another state on it (`known`, so many milliseconds ago), it was wiped.
local function look_for_losses(known, ago)
  local id, started = server()
  if not state.since then
    state.since, state.lost = TIME[1] .. string.format('%06d', TIME[2]), started
  elseif state.server ~= id then
    state.lost = NOW
  end
  state.server = id
  if known ~= '' and known ~= state.since and NOW - ago >= started then
    state.lost = math.max(state.lost, math.floor(state.since / 1000))
  end
end

local function forget_old()
  local last = NOW - WINDOW_MS - BUCKET_MS
  local newest = redis.call('ZRANGE', P .. 'buckets', -1, -1)[1]
  if newest and tonumber(newest) <= last then
    redis.call('DEL', P .. 'buckets', STATE) -- `close` writes what is not a bucket's
    state.requests, state.tokens = 0, 0
  end
  for _, bucket in ipairs(redis.call('ZRANGE', P .. 'buckets', '-inf', digits(last), 'BYSCORE')) do
    local charged = redis.call('HMGET', STATE, 'r' .. bucket, 't' .. bucket)
    state.requests = state.requests - (charged[1] or 0)
    state.tokens = state.tokens - (charged[2] or 0)
    redis.call('HDEL', STATE, 'r' .. bucket, 't' .. bucket)
  end
  redis.call('ZREMRANGEBYSCORE', P .. 'buckets', '-inf', digits(last))
  redis.call('ZREMRANGEBYSCORE', P .. 'done', '-inf', digits(last))
  for _, id in ipairs(redis.call('ZRANGE', P .. 'leases', '-inf', digits(last), 'BYSCORE')) do
    redis.call('HDEL', P .. 'taken', id)
  end
  redis.call('ZREMRANGEBYSCORE', P .. 'leases', '-inf', digits(last))
end

-- Charges to the present bucket, and returns that.
local function charge(requests, tokens)
  local bucket = digits(NOW - NOW % BUCKET_MS)
  redis.call('ZADD', P .. 'buckets', bucket, bucket)
  redis.call('HINCRBY', STATE, 'r' .. bucket, requests)
  redis.call('HINCRBY', STATE, 't' .. bucket, digits(tokens))
  state.requests = state.requests + requests
  state.tokens = state.tokens + tokens
  return bucket
end

-- What was used beyond what was reserved takes the room that there is, before anybody else. While it is not known
-- whether there is any, it waits. `limit`: -1 for none.
local function pay_debt(limit)
  if NOW < state.lost + WINDOW_MS then
    return
  end
  local room = limit < 0 and state.debt or math.max(0, limit - state.tokens)
  local paid = math.min(state.debt, room)
  if paid > 0 then
    state.debt = state.debt - paid
    charge(0, paid)
  end
end

-- `known` and `ago`: the state that whoever asks has seen, and when; empty for none. `limit`: of tokens.
local function open(known, ago, limit)
  local fields = redis.call('HMGET', STATE, 'since', 'server', 'lost', 'requests', 'tokens', 'debt')
  state = {
    since = fields[1],
    server = fields[2],
    lost = tonumber(fields[3] or 0),
    requests = tonumber(fields[4] or 0),
    tokens = tonumber(fields[5] or 0),
    debt = tonumber(fields[6] or 0),
  }
  look_for_losses(known, ago)
  forget_old()
  pay_debt(limit)
end

local function close()
  redis.call(
    'HSET', STATE, 'since', state.since, 'server', state.server, 'lost', digits(state.lost),
    'requests', digits(state.requests), 'tokens', digits(state.tokens), 'debt', digits(state.debt)
  )
  redis.call('PEXPIRE', STATE, state.debt > 0 and DAY_MS or 3 * WINDOW_MS)
  for _, name in ipairs({'buckets', 'taken', 'leases', 'done'}) do
    redis.call('PEXPIRE', P .. name, 3 * WINDOW_MS)
  end
end
