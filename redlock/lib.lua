-- KEYS: lock, companion. Put before the other scripts, behind internal/redisnode's functions.
-- The companion is a hash. counter: the last token accepted. dead: the last attempts given up; broken: those not by their holders.
-- queue: the Lockers that wait. turn: whose turn it is, and until when by this server's clock.

local now, us = clock()
local lock = redis.call('GET', KEYS[1])
local state = redis.call('HMGET', KEYS[2], 'counter', 'dead', 'queue', 'turn')
local counter, tombs, queue, turn = state[1] or '', state[2], state[3] or '', state[4] or ''

-- belongs reports whether the lock is the attempt's.
local function belongs(attempt)
  return lock and string.sub(lock, 1, #attempt + 1) == attempt .. ':'
end

-- toofar reports whether a token is more than a day above both counter and clock; floor is the token less a day.
local function toofar(floor)
  return less(now, floor) and less(counter, floor)
end

-- keep lets the companion outlive its tokens.
local function keep()
  if counter == '' then expire(KEYS[2], now, now) else expire(KEYS[2], counter, now) end
end

-- reserved returns the Locker whose turn it is and for how many ms. A step of the clock must not prolong it.
local function reserved()
  local who, till = string.match(turn, '^(%S+) (%d+)$')
  if not who then return nil, 0 end
  local left = math.ceil((till - us) / 1000)
  if left <= 0 or left > 1000 then return nil, 0 end
  return who, left
end

-- unqueue takes a Locker out of the queue.
local function unqueue(who)
  local from, to = string.find(queue, who .. ' ', 1, true)
  if from then queue = string.sub(queue, 1, from - 1) .. string.sub(queue, to + 1) end
end

-- wake wakes the first in the queue that is there, and nobody else. It has the turn for a moment, so that neither
-- the herd nor the last holder barges in. It is told the counter, so that its first proposal is not stale.
local function wake(grace)
  turn = ''
  for who in string.gmatch(queue, '%S+') do
    unqueue(who)
    local heard = redis.pcall('PUBLISH', 'fencelock:turn:' .. who, counter .. ' ' .. KEYS[1])
    if type(heard) == 'number' and heard > 0 then
      turn = who .. ' ' .. string.format('%d', us + grace * 1000)
      return
    end
  end
end
