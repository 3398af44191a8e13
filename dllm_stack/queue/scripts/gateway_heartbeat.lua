-- A gateway lives, and has read its replies up to an id. ARGV: gateway, ttl ms, last reply read
redis.call('ZADD', P .. 'gateways', NOW + ARGV[2], ARGV[1])
trim(P .. 'replies:' .. ARGV[1], ARGV[3])
