-- KEYS: counter. ARGV: unused.
-- Replies: token | full
local counter = redis.call('GET', KEYS[1])
local now = clock()
local token = now
if counter and not less(counter, now) then token = add(counter, 1) end
if not valid(token) then return {'full'} end
redis.call('SET', KEYS[1], token)
expire(KEYS[1], token, now)
return {token}
