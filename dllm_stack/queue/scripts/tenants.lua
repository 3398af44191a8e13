-- The tenants that have open jobs.
-- Returns {{tenant, jobs waiting, their bytes, jobs running}, ...}
local rows, row_of = {}, {}

local function row(tenant)
  if not row_of[tenant] then
    row_of[tenant] = {tenant, 0, 0, 0}
    rows[#rows + 1] = row_of[tenant]
  end
  return row_of[tenant]
end

local bytes = redis.call('HGETALL', P .. 'waiting_bytes')
for i = 1, #bytes, 2 do
  local tenant = string.match(bytes[i], '^tenant:(.*)$')
  if tenant then
    local found = row(tenant)
    found[3] = tonumber(bytes[i + 1])
    for _, tier in ipairs(TIERS) do
      found[2] = found[2] + redis.call('ZCARD', P .. 'line:' .. tier .. ':' .. tenant)
    end
  end
end
local running = redis.call('HGETALL', P .. 'running')
for i = 1, #running, 2 do
  row(running[i])[4] = tonumber(running[i + 1])
end
return rows
