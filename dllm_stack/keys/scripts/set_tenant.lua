-- ARGV: 1 nonce, 2 name, 3 what is thought to be there, nothing, or '*' for whatever is there, 4 the tenant
-- Returns the change, or 'changed' if something else is there
local there = redis.call('HGET', P .. 'tenants', ARGV[2]) or ''
if there == ARGV[4] then
  return last_change()
end
if ARGV[3] ~= '*' and ARGV[3] ~= there then
  return 'changed'
end
put('tenants', ARGV[2], ARGV[4])
return changed(ARGV[1])
