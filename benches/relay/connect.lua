-- A connection, a query of one row, and its end.

function thread_init()
   drv = sysbench.sql.driver()
end

function event()
   local con = drv:connect()
   con:query("SELECT 1")
   con:disconnect()
end
