-- KEYS: lock. ARGV: attempt, TTL (ms).
-- Replies: renewed | taken | gone
local value = redis.call('GET', KEYS[1])
if not value then return {'gone'} end
if string.sub(value, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then return {'taken'} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'renewed'}
