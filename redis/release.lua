-- KEYS: lock, companion. ARGV: attempt.
-- Ends an attempt for ever, whether it holds the lock, waits in the queue or is still on its way; passes the lock on.
-- Replies: released | again (it was dead already) | taken | gone
local lock, companion = KEYS[1], KEYS[2]
local me = ARGV[1]

local value = redis.call('GET', lock)
local mine = value and string.sub(value, 1, #me + 1) == me .. ':'
if mine then redis.call('DEL', lock) end -- first, so that a server out of memory lets us write the rest

local counter, tombs, queue = unpack(redis.call('HMGET', companion, 'c', 't', 'q'))
local again = dead(tombs, me)
if queue and queue ~= '' then
  local rest = leave(queue, me)
  redis.call('HSET', companion, 't', bury(tombs, me), 'q', rest)
  if mine and rest ~= '' then
    local now, us = clock()
    local left, last, passed = pass(lock, companion, rest, counter, now, us, me)
    counter = last
    if not passed then
      redis.call('HSET', companion, 'q', left)
      redis.call('DEL', lock)
    end
  end
elseif not again then
  redis.call('HSET', companion, 't', bury(tombs, me))
end
if not counter then redis.call('PEXPIRE', companion, 600000) end
if mine then return {'released'} end
if again then return {'again'} end
return {value and 'taken' or 'gone'}
