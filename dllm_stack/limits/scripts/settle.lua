-- A request is over, and has used so many tokens. Counts once.
-- ARGV: id, known, ago, limit of tokens (-1: none), tokens that were reserved, tokens used

local id, most_tokens = ARGV[1], tonumber(ARGV[4])
local reserved, used = tonumber(ARGV[5]), tonumber(ARGV[6])

open(ARGV[2], ARGV[3], most_tokens)
if redis.call('ZADD', P .. 'done', 'NX', digits(NOW), id) == 1 then
  local bucket, tokens = (redis.call('HGET', P .. 'taken', id) or ''):match('^(%d+) (%d+)$')
  reserved = tonumber(tokens) or reserved
  if used > reserved then
    state.debt = state.debt + used - reserved
    pay_debt(most_tokens)
  elseif bucket then
    -- Less than was reserved if this server has lost a part.
    local back = math.min(reserved - used, redis.call('HGET', STATE, 't' .. bucket) or 0)
    if back > 0 then
      redis.call('HINCRBY', STATE, 't' .. bucket, digits(-back))
      state.tokens = state.tokens - back
    end
    pay_debt(most_tokens)
  end
  redis.call('HDEL', P .. 'taken', id)
  redis.call('ZREM', P .. 'leases', id)
end
close()
return state.since
