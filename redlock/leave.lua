-- KEYS: lock, companion. ARGV: Locker that no longer waits, ms for which the next one has its turn.
-- Answers {'free'}.
local before = queue .. turn
unqueue(ARGV[1])
if not lock and reserved() == ARGV[1] then wake(tonumber(ARGV[2])) end
if queue .. turn ~= before then
  redis.call('HSET', KEYS[2], 'queue', queue, 'turn', turn)
  if queue .. turn .. counter .. (tombs or '') == '' then redis.call('DEL', KEYS[2]) end
end
return {'free'}
