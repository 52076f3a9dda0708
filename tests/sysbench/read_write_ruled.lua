-- oltp_read_write, with the id left out of its INSERT: a fresh id within a transaction. The original writes the id itself.
require("oltp_read_write")

local inserts = {}

function prepare_delete_inserts()
   prepare_for_each_table("deletes")
   for t = 1, sysbench.opt.tables do
      local stmt = con:prepare(string.format("INSERT INTO sbtest%u (k, c, pad) VALUES (?, ?, ?)", t))
      local insert = {
         stmt = stmt,
         k = stmt:bind_create(sysbench.sql.type.INT),
         c = stmt:bind_create(sysbench.sql.type.CHAR, 120),
         pad = stmt:bind_create(sysbench.sql.type.CHAR, 60)
      }
      stmt:bind_param(insert.k, insert.c, insert.pad)
      inserts[t] = insert
   end
end

function execute_delete_inserts()
   local t = sysbench.rand.uniform(1, sysbench.opt.tables)
   local insert = inserts[t]
   for _ = 1, sysbench.opt.delete_inserts do
      param[t].deletes[1]:set(sysbench.rand.default(1, sysbench.opt.table_size))
      stmt[t].deletes:execute()
      insert.k:set(sysbench.rand.default(1, sysbench.opt.table_size))
      insert.c:set(get_c_value())
      insert.pad:set(get_pad_value())
      insert.stmt:execute()
   end
end
