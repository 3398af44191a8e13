-- Dead letters, the oldest first, or the request of one. ARGV: '' | the id of a job
-- Returns {{entry, id, tenant, reason, attempts, is its request kept (0|1)}, ...} | request or nil; of an
-- entry that somebody else has written, what it has of these
local rows = {}
for i, entry in ipairs(redis.call('XRANGE', P .. 'dead', '-', '+')) do
  local letter = {}
  for field = 1, #entry[2], 2 do
    letter[entry[2][field]] = entry[2][field + 1]
  end
  if letter.id == ARGV[1] then
    return letter.body
  end
  rows[i] = {
    entry[1], letter.id or '', letter.tenant or '', letter.reason or '', tonumber(letter.attempts) or 0,
    letter.body and 1 or 0,
  }
end
return ARGV[1] == '' and rows or nil
