-- Functions of acquire.lua and release.lua. A companion is a hash: c counter, t tombstones, b those of broken holds, q queue. An entry of the queue is
-- "attempt TTL tokens min registration how+locker;" where how is g (grant it the lock) or w (only wake it).

-- block reserves up to n tokens above counter (or false) and min: microseconds that have passed since the last grant, so that
-- the counter never runs ahead of the clock and tokens rise even if the counter is lost.
local function block(counter, n, min, now, us)
  if not counter then
    local first = less(min, now) and now or add(min, 1)
    return first, first
  end
  local first, floor = add(less(counter, min) and min or counter, 1), string.format('%d', us - n + 1)
  if less(first, floor) then first = floor end
  local last = add(first, n - 1)
  if less(now, last) then last = less(now, first) and first or now end
  return first, last
end

-- grant gives the free lock to an attempt. The counter is written first: what a script wrote before a failing command stays.
local function grant(lock, companion, queue, counter, attempt, ttl, n, min, now, us)
  local first, last = block(counter, tonumber(n), min, now, us)
  if not valid(last) then return nil end
  if queue then
    redis.call('HSET', companion, 'c', last, 'q', queue)
  else
    redis.call('HSET', companion, 'c', last)
  end
  expire(companion, last, now)
  redis.call('SET', lock, attempt .. ':' .. first, 'PX', ttl)
  return first, last
end

-- tell publishes to one Locker and returns the number of its receivers; 0 if the server does not let us.
local function tell(locker, message)
  local receivers = redis.pcall('PUBLISH', 'fencelock/' .. locker, message)
  return type(receivers) == 'number' and receivers or 0
end

-- pass grants the free lock to the first in the queue that can be told, but stops at the attempt me. It returns the rest of
-- the queue, the counter, and whether it granted. A dead waiter has no receiver and is skipped at once; its lock key is
-- overwritten, or left to the caller.
local function pass(lock, companion, queue, counter, now, us, me)
  while queue ~= '' do
    local attempt, ttl, n, min, number, how, locker, rest =
      string.match(queue, '^(%x+) (%d+) (%d+) (%d+) (%d+) (%l)(%x+);(.*)$')
    if not attempt then return '', counter, false end
    if attempt == me then return queue, counter, false end
    queue = rest
    if how == 'w' then
      tell(locker, attempt)
      return queue, counter, false
    end
    local first, last = grant(lock, companion, queue, counter, attempt, ttl, n, min, now, us)
    if first then
      counter = last
      if tell(locker, attempt .. ' ' .. number .. ' ' .. first .. ' ' .. last) > 0 then return queue, counter, true end
    end
  end
  return queue, counter, false
end

-- leave takes an attempt out of the queue.
local function leave(queue, attempt)
  local from = string.find(queue, attempt .. ' ', 1, true)
  if not from then return queue end
  return string.sub(queue, 1, from - 1) .. string.sub(queue, string.find(queue, ';', from, true) + 1)
end
