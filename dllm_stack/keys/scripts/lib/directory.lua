-- Placed before every script. All keys begin with KEYS[1], whose braces put them into one cluster slot. What
-- is in the hashes is JSON.
--
--   keys      hash    id -> tenants.Key
--   revoked   hash    id -> directory.Revocation; outlives its key in `keys`, should Redis lose that
--   tenants   hash    name -> tenants.Tenant
--   departed  hash    name -> Unix seconds at which this tenant was last deleted
--   change    string  <number>-<nonce> of the last change. The nonce tells it from another one that got the
--                     same number after Redis had lost some
--   history   zset    the last changes -> number. Who has one of these in force needs no more than what was
--                     touched since
--   touched   zset    <hash>:<field> -> number of the change that last did so
--   born      string  ms at which all of this began, anew if Redis has lost it
--   rings     zset    gateway -> ms at which it stops to count on what it knows, unless it has looked again
--   heard     hash    gateway -> number of the last change that it has in force

local P = KEYS[1]
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)

local HISTORY = 1000 -- changes

-- A beginning has a mark of its own: who knew another one is not to think that nothing has changed.
if redis.call('SET', P .. 'born', string.format('%.0f', NOW), 'NX') then
  redis.call('SET', P .. 'change', '0-' .. TIME[1] .. TIME[2])
end

local function last_change()
  return redis.call('GET', P .. 'change')
end

local function number_of(change)
  return tonumber(string.match(change, '^%d+'))
end

local touched = {}

local function put(hash, field, value)
  redis.call('HSET', P .. hash, field, value)
  touched[#touched + 1] = hash .. ':' .. field
end

-- What was put since the script began is one change; returned.
local function changed(nonce)
  local number = number_of(last_change()) + 1
  local change = string.format('%.0f', number) .. '-' .. nonce
  redis.call('SET', P .. 'change', change)
  redis.call('ZADD', P .. 'history', number, change)
  redis.call('ZREMRANGEBYRANK', P .. 'history', 0, -HISTORY - 1)
  for _, entry in ipairs(touched) do
    redis.call('ZADD', P .. 'touched', number, entry)
  end
  return change
end

local function rank(revocation)
  return revocation.ends > revocation.at and revocation.ends or 0
end

-- Keys that a tenant had until then open nothing any more. Returns whether that is news.
local function depart(name, at)
  if tonumber(redis.call('HGET', P .. 'departed', name) or 0) >= tonumber(at) then
    return false
  end
  put('departed', name, at)
  return true
end

-- Of two revocations of a key, the one by which it ends first stays. Returns whether that is the new one.
local function revoke(id, revocation)
  local known = redis.call('HGET', P .. 'revoked', id)
  if known and rank(cjson.decode(known)) <= rank(cjson.decode(revocation)) then
    return false
  end
  put('revoked', id, revocation)
  return true
end
