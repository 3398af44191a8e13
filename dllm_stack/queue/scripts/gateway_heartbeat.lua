-- needs: streams
-- A gateway lives, and has read its replies up to an id. ARGV: gateway, last reply read
redis.call('ZADD', P .. 'gateways', NOW + TTL_MS, ARGV[1])
trim(P .. 'replies:' .. ARGV[1], ARGV[2])
