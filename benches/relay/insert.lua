-- INSERTs that leave the id out: one row through a prepared statement (sent as text under --db-ps-mode=disable), or --rows=N
-- as one text of about 100 bytes a row, built once a thread so that the relay is measured and not the making of the text.

sysbench.cmdline.options = {
   table = {"Table to insert into", "items"},
   rows = {"Rows of a statement", 1}
}

local c_template = string.rep("#########-", 7)

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   local head = string.format("INSERT INTO %s (k, c) VALUES ", sysbench.opt.table)
   if sysbench.opt.rows == 1 then
      stmt = con:prepare(head .. "(?, ?)")
      k = stmt:bind_create(sysbench.sql.type.INT)
      -- One byte more than the text: sysbench writes no NUL behind it, and reads on to one.
      c = stmt:bind_create(sysbench.sql.type.CHAR, #c_template + 1)
      stmt:bind_param(k, c)
   else
      local rows = {}
      for i = 1, sysbench.opt.rows do
         rows[i] = string.format("(%d, '%s, row %06d of this')", 100000 + i, sysbench.rand.string(c_template), i)
      end
      text = head .. table.concat(rows, ",")
   end
end

function event()
   if stmt then
      k:set(sysbench.rand.uniform(1, 1000000))
      c:set_rand_str(c_template)
      stmt:execute()
   else
      con:query(text)
   end
end

function thread_done()
   if stmt then
      stmt:close()
   end
   con:disconnect()
end
