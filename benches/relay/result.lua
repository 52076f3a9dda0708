-- A result set of 100 MB: 100,000 rows of 1,000 bytes, read to the end.

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
end

function event()
   con:query("SELECT c FROM big")
end

function thread_done()
   con:disconnect()
end
