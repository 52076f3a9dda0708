-- bulk_insert, with NULL where the id goes: long INSERTs without a column list whose every id is the generator's.
require("bulk_insert")

function event()
   if cursize == 0 then
      con:bulk_insert_init("INSERT INTO sbtest" .. thread_id + 1 .. " VALUES")
   end
   cursize = cursize + 1
   con:bulk_insert_next("(NULL," .. cursize .. ")")
end
