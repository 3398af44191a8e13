-- Where a job waits: by tier, and by arrival within it. ARGV: id
-- Returns {its place, from 1, jobs waiting}; {} when it does not wait.
local tier = redis.call('HGET', job_key(ARGV[1]), 'tier')
local rank = tier and redis.call('ZRANK', P .. 'waiting:' .. tier, ARGV[1])
if not rank then
  return {}
end
local place, waiting, ahead = rank + 1, 0, true
for _, each in ipairs(TIERS) do
  local jobs = redis.call('ZCARD', P .. 'waiting:' .. each)
  ahead = ahead and each ~= tier
  place = ahead and place + jobs or place
  waiting = waiting + jobs
end
return {place, waiting}
