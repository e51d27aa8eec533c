-- KEYS: lock. ARGV: attempt:first:last, TTL in ms.
-- Answers {'ours'} if it was renewed, {'free'} or {'taken'} if not.
local lock = redis.call('GET', KEYS[1])
if not lock then return {'free'} end
if lock ~= ARGV[1] then return {'taken'} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'ours'}
