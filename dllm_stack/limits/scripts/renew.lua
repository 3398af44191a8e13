-- These requests are still open. Returns since.
-- ARGV: known, ago, limit of tokens (-1: none), how long they count as open from now, ids
open(ARGV[1], ARGV[2], tonumber(ARGV[3]))
for i = 5, #ARGV do
  if not redis.call('ZSCORE', P .. 'done', ARGV[i]) then
    redis.call('ZADD', P .. 'leases', digits(NOW + ARGV[4]), ARGV[i])
  end
end
close()
return state.since
