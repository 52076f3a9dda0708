-- Ruled inserts and point selects by connections that are made again after every few events, as pools and short scripts do.

sysbench.cmdline.options = {
   reconnect = {"Events of a connection", 20},
}

local drv, con, events

function prepare()
   local con = sysbench.sql.driver():connect()
   con:query("CREATE TABLE sbtest1 (id BIGINT NOT NULL, k INT NOT NULL, c VARCHAR(100) NOT NULL, KEY (id))")
end

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   events = 0
end

function event()
   if events == sysbench.opt.reconnect then
      con:disconnect()
      con = drv:connect()
      events = 0
   end
   events = events + 1
   con:query("INSERT INTO sbtest1(k, c) VALUES(" .. sysbench.rand.default(1, 1000000) .. ", 'row')")
   con:query("SELECT MAX(id) FROM sbtest1")
end

function thread_done()
   con:disconnect()
end
