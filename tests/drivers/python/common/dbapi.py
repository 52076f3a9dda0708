"""The checks for a driver of Python's DB-API (PEP 249): the same calls, whatever travels beneath them."""

from check import COLUMNS, DATABASE, HOST, PASSWORD, PORT, TABLES, TEXTS, USER, VALUES, Check, short

LOGIN = {"host": HOST, "port": PORT, "user": USER, "password": PASSWORD, "database": DATABASE}


class Program:
    """One run over both tables.

    connect: opens a connection with the driver's defaults.
    prepared: from a connection, a cursor that prepares on the server; without it the statements go as text.
    batch_id: which id of an executemany the driver reports, "first" or "last".
    """

    def __init__(self, driver, connect, *, prepared=None, batch_id="first"):
        self.check = Check(driver)
        self.driver = driver
        self.connection = connect()
        self.witness = connect()
        self.prepared = prepared or (lambda connection: connection.cursor())
        self.batch_id = batch_id

    def run(self):
        for table, first_id in TABLES.items():
            self.one_row(table, first_id)
            self.several_rows(table)
            self.repeated(table)
            self.batch(table)
            self.transactions(table)
        self.check.done()

    def rows(self, table, tag):
        """(id, text) of the tag's rows, as another connection sees them."""
        self.witness.rollback()
        cursor = self.witness.cursor()
        cursor.execute(f"SELECT id, txt FROM {table}_text WHERE tag = %s ORDER BY id", (tag,))
        return [tuple(row) for row in cursor.fetchall()]

    def one_row(self, table, first_id):
        tag = f"{self.driver} one"
        cursor = self.connection.cursor()
        cursor.execute(f"INSERT INTO {table} (tag, note, qty) VALUES (%s, %s, %s)", (tag, "it's one", 1))
        reported = cursor.lastrowid
        cursor.execute("SELECT LAST_INSERT_ID()")
        function = cursor.fetchone()[0]
        self.connection.commit()
        self.check.same(f"{table}: one row", [(reported, short("it's one", 1))], self.rows(table, tag))
        self.check.same(f"{table}: LAST_INSERT_ID() is lastrowid", reported, function)
        self.check.true(f"{table}: id {reported} is not below {first_id}", reported >= first_id)

    def several_rows(self, table):
        tag = f"{self.driver} several"
        cursor = self.connection.cursor()
        cursor.execute(f"INSERT INTO {table} (tag, note, qty) VALUES (%s, 'a', 1), (%s, 'b', 2), (%s, 'c', 3)", (tag,) * 3)
        first = cursor.lastrowid
        self.connection.commit()
        self.check.same(f"{table}: affected rows of several", 3, cursor.rowcount)
        expect = [(first + i, short("abc"[i], i + 1)) for i in range(3)]
        self.check.same(f"{table}: several rows", expect, self.rows(table, tag))

    def repeated(self, table):
        tag = f"{self.driver} repeated"
        cursor = self.prepared(self.connection)
        names = ", ".join(COLUMNS)
        marks = ", ".join(["%s"] * len(COLUMNS))
        ids = []
        for values in VALUES:
            cursor.execute(f"INSERT INTO {table} (tag, {names}) VALUES (%s, {marks})", (tag, *values))
            ids.append(cursor.lastrowid)
        self.connection.commit()
        self.check.same(f"{table}: repeated executions", list(zip(ids, TEXTS)), self.rows(table, tag))

        tag = f"{self.driver} null"
        cursor.execute(f"INSERT INTO {table} (id, tag, note, qty) VALUES (%s, %s, %s, %s)", (None, tag, "n", 1))
        reported = cursor.lastrowid
        self.connection.commit()
        cursor.close()
        self.check.same(f"{table}: id bound to NULL", [(reported, short("n", 1))], self.rows(table, tag))

    def batch(self, table):
        tag = f"{self.driver} batch"
        cursor = self.connection.cursor()
        cursor.executemany(
            f"INSERT INTO {table} (tag, note, qty) VALUES (%s, %s, %s)", [(tag, f"b'{i}", i) for i in range(5)]
        )
        reported = cursor.lastrowid
        self.connection.commit()
        rows = self.rows(table, tag)
        self.check.same(f"{table}: affected rows of the batch", 5, cursor.rowcount)
        self.check.same(f"{table}: rows of the batch", [short(f"b'{i}", i) for i in range(5)], [text for _, text in rows])
        at = 0 if self.batch_id == "first" else -1
        self.check.same(f"{table}: the batch's {self.batch_id} id", rows[at][0], reported)

    def transactions(self, table):
        insert = f"INSERT INTO {table} (tag, note, qty) VALUES (%s, %s, %s)"
        tag = f"{self.driver} transaction"
        cursor = self.connection.cursor()
        ids = []
        for i in range(2):
            cursor.execute(insert, (tag, "t", i))
            ids.append(cursor.lastrowid)
        self.check.same(f"{table}: nothing is seen before the commit", [], self.rows(table, tag))
        self.connection.commit()
        self.check.same(f"{table}: committed", [(ids[i], short("t", i)) for i in range(2)], self.rows(table, tag))

        tag = f"{self.driver} rollback"
        cursor.execute(insert, (tag, "r", 0))
        gone = cursor.lastrowid
        self.connection.rollback()
        self.check.same(f"{table}: rolled back", [], self.rows(table, tag))
        cursor.execute(insert, (tag, "r", 1))
        reported = cursor.lastrowid
        self.connection.commit()
        self.check.same(f"{table}: after the rollback", [(reported, short("r", 1))], self.rows(table, tag))
        self.check.true(f"{table}: id {gone} is not given again", reported > gone)
