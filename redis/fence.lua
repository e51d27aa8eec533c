-- KEYS: fence, then those of the write. ARGV: token, claim|write|strict, then those of the write.
-- The fence is a hash: claimed, the greatest token admitted; written, the greatest that has written. It has no TTL.
local fence, token, mode = KEYS[1], ARGV[1], ARGV[2]

local claimed, written = unpack(redis.call('HMGET', fence, 'claimed', 'written'))
if claimed and less(token, claimed) then return redis.error_reply('FENCED ' .. claimed) end
if mode == 'strict' and written and not less(written, token) then
  return redis.error_reply('FENCED ' .. add(written, 1))
end
if token ~= claimed then redis.call('HSET', fence, 'claimed', token) end
if mode == 'claim' then return 'OK' end

-- tail returns a list without its first n.
local function tail(list, n)
  local rest = {}
  for i = n + 1, #list do rest[i - n] = list[i] end
  return rest
end

-- mark notes that the token has written, after the write and unless that failed, and returns the write's result.
local function mark(result)
  if type(result) ~= 'table' or not result.err then redis.call('HSET', fence, 'written', token) end
  return result
end
