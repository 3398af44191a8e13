-- A worker leaves in good order; jobs it still holds wait again, and cost no try.
-- ARGV: worker, most tries, lost body, exhausted body
for _, id in ipairs(redis.call('HKEYS', P .. 'running:' .. ARGV[1])) do
  give_back(id, ARGV[2], ARGV[3], ARGV[4], true)
end
drop_worker(ARGV[1])
