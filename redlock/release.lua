-- KEYS: lock, companion. ARGV: attempt, last token or '0', that less a day, ms for which the next one has its turn,
-- 'broken' if it is not its holder that ends it.
-- Answers {'ours'} if the attempt is given up by this or an earlier release, {'free'} or {'taken'} if it did not hold the lock.
local attempt, last, floor, grace = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local result = 'taken'
if belongs(attempt) then
  -- First, so that a server out of memory lets the other writes pass.
  redis.call('DEL', KEYS[1])
  lock, result = nil, 'ours'
  -- Its own release, which may come later, must not be told that it has come twice.
  if ARGV[5] then redis.call('HSET', KEYS[2], 'broken', bury(redis.call('HGET', KEYS[2], 'broken'), attempt)) end
elseif dead(tombs, attempt) and not dead(redis.call('HGET', KEYS[2], 'broken'), attempt) then
  result = 'ours'
elseif not lock then
  result = 'free'
end

-- A node that was left out of the quorum learns of its tokens, unless they are out of its reach.
local raised = last ~= '0' and less(counter, last) and not toofar(floor)
if raised then counter = last end
local before = queue .. turn
if not lock and before ~= '' and not reserved() then wake(grace) end

local fields = {'dead', bury(tombs, attempt)}
if raised then table.insert(fields, 'counter') table.insert(fields, counter) end
if queue .. turn ~= before then
  for _, field in ipairs({'queue', queue, 'turn', turn}) do table.insert(fields, field) end
end
redis.call('HSET', KEYS[2], unpack(fields))
if raised or counter == '' then keep() end
return {result}
