-- These requests are still open. Returns since.
-- ARGV: the state known to whoever asks, limit of tokens (-1: none), how long they count as open from now, ids
open(ARGV[1], tonumber(ARGV[2]))
for i = 4, #ARGV do
  if not redis.call('ZSCORE', P .. 'done', ARGV[i]) then
    redis.call('ZADD', P .. 'leases', digits(NOW + ARGV[3]), ARGV[i])
  end
end
close()
return state.since
