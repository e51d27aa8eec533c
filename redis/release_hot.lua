-- KEYS: lock, companion. ARGV: attempt, 'broken' if it is not its holder that ends it.
-- Ends an attempt for ever, whether it holds the lock, waits in the queue or is still on its way; passes the lock on.
-- Replies: released | again (it was dead already) | taken | gone
-- The usual case comes first and makes do without functions, since making them costs more than all the rest.
local lock, companion = KEYS[1], KEYS[2]
local me = ARGV[1]

local value = redis.call('GET', lock)
local mine = value and string.sub(value, 1, #me + 1) == me .. ':'
if mine then redis.call('DEL', lock) end -- first, so that a server out of memory lets us write the rest
if mine and ARGV[2] then -- see release.lua
  redis.call('HSET', companion, 'b', string.sub(me, 1, 12) .. ',' .. string.sub(redis.call('HGET', companion, 'b') or '', 1, 403))
end

local counter, tombs, queue = unpack(redis.call('HMGET', companion, 'c', 't', 'q'))
if mine and counter and (not queue or queue == '') then -- nobody waits; see bury
  redis.call('HSET', companion, 't', string.sub(me, 1, 12) .. ',' .. string.sub(tombs or '', 1, 403))
  return {'released'}
end
