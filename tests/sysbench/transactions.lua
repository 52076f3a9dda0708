-- Transactions of three ruled inserts and an update, over connections that a restart of the proxy ends. An event is one
-- transaction that was committed, so that there are three rows an event. A connection that ends before BEGIN was answered
-- has lost nothing: the event connects again. One that ends later has broken a transaction: a line "BROKEN" says so.

local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int microseconds);")

local ROWS = 3
local drv, con

function prepare()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE sbtest1 (id BIGINT NOT NULL, k INT NOT NULL, c VARCHAR(100) NOT NULL, KEY (id))")
   con:query("CREATE TABLE sums (thread INT PRIMARY KEY, n BIGINT NOT NULL)")
   for thread = 0, sysbench.opt.threads - 1 do
      con:query("INSERT INTO sums VALUES (" .. thread .. ", 0)")
   end
end

-- The proxy is away for a moment at each restart.
local function connect()
   while true do
      local ok, made = pcall(drv.connect, drv)
      if ok then return made end
      ffi.C.usleep(2000)
   end
end

function thread_init()
   drv = sysbench.sql.driver()
   con = connect()
end

local function transaction()
   local statements = {"BEGIN"}
   for _ = 1, ROWS do
      table.insert(statements, "INSERT INTO sbtest1(k, c) VALUES(" .. sysbench.rand.default(1, 1000000) .. ", 'row')")
   end
   table.insert(statements, "UPDATE sums SET n = n + " .. ROWS .. " WHERE thread = " .. sysbench.tid)
   table.insert(statements, "COMMIT")
   for at, sql in ipairs(statements) do
      local ok, err = pcall(con.query, con, sql)
      if not ok then
         if at > 1 then print("BROKEN at " .. sql .. ": " .. tostring(type(err) == "table" and err.sql_errmsg or err)) end
         return false
      end
   end
   return true
end

function event()
   while not transaction() do
      pcall(con.disconnect, con)
      con = connect()
   end
end

function thread_done()
   con:disconnect()
end
