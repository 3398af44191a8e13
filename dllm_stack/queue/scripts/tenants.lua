-- Tenants that have open jobs: those with the most waiting, and those with the most running.
-- ARGV: at most so many of each
-- Returns {{tenant, jobs waiting, their bytes, jobs running}, ...}
local at_most = tonumber(ARGV[1])
local tenants = redis.call('ZRANGE', P .. 'held:pool:jobs', 0, at_most - 1, 'REV')

local running, running_of = {}, {}
local found = redis.call('HGETALL', P .. 'running')
for i = 1, #found, 2 do
  running[#running + 1] = found[i]
  running_of[found[i]] = tonumber(found[i + 1])
end
table.sort(running, function(a, b) return running_of[a] > running_of[b] end)
for i = 1, math.min(at_most, #running) do
  tenants[#tenants + 1] = running[i]
end

local rows, seen = {}, {}
for _, tenant in ipairs(tenants) do
  if not seen[tenant] then
    seen[tenant] = true
    rows[#rows + 1] = {
      tenant,
      tonumber(redis.call('ZSCORE', P .. 'held:pool:jobs', tenant) or 0),
      tonumber(redis.call('ZSCORE', P .. 'held:pool:bytes', tenant) or 0),
      running_of[tenant] or 0,
    }
  end
end
return rows
