-- needs: streams
-- What a question asked for. ARGV: gateway, id of the question, worker, body
if redis.call('ZSCORE', P .. 'gateways', ARGV[1]) then
  send({gateway = ARGV[1], id = ARGV[2], attempt = 0}, ARGV[3], 0, 0, ARGV[4])
end
