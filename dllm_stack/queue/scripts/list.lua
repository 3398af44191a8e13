-- Open jobs, for people. ARGV: waiting | running | the id of one, at most so many
-- Returns {{id, field, value, ..., age_ms, ms since admission}, ...}; those waiting by tier and age
local ids, at_most = {}, tonumber(ARGV[2])

local function add(more)
  for _, id in ipairs(more) do
    if #ids < at_most then
      ids[#ids + 1] = id
    end
  end
end

if ARGV[1] == 'waiting' then
  for _, tier in ipairs(TIERS) do
    add(redis.call('ZRANGE', P .. 'waiting:' .. tier, 0, at_most - 1))
  end
elseif ARGV[1] == 'running' then
  for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', 0, -1)) do
    add(redis.call('HKEYS', P .. 'running:' .. worker))
  end
else
  add({ARGV[1]})
end

local rows = {}
for _, id in ipairs(ids) do
  local row = redis.call('HGETALL', job_key(id))
  if row[1] then
    table.insert(row, 1, id)
    row[#row + 1] = 'age_ms'
    row[#row + 1] = math.max(0, NOW - math.floor(redis.call('HGET', job_key(id), 'order') / 1000))
    rows[#rows + 1] = row
  end
end
return rows
