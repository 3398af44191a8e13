-- needs: streams
-- Which of a gateway's open jobs does Redis no longer know? None are named while the gateway has
-- replies to read: one of them may be the end it misses. ARGV: gateway, last reply read, ids ...
local newest = redis.call('XREVRANGE', P .. 'replies:' .. ARGV[1], '+', '-', 'COUNT', 1)
if newest[1] and not not_after(newest[1][1], ARGV[2]) then
  return {}
end
local lost = {}
for i = 3, #ARGV do
  if redis.call('EXISTS', job_key(ARGV[i])) == 0 then
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
