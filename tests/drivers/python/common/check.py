"""What every program needs: the address, the rows that it writes, and the count of its checks."""

import os
import sys
from datetime import datetime
from decimal import Decimal

HOST = os.environ["ROWSTAMP_HOST"]
PORT = int(os.environ["ROWSTAMP_PORT"])
USER = os.environ["ROWSTAMP_USER"]
PASSWORD = os.environ["ROWSTAMP_PASSWORD"]
DATABASE = os.environ["ROWSTAMP_DATABASE"]

# The tables and the least id that each may hand out.
TABLES = {"orders": 5000, "kept": 7000}

COLUMNS = ("note", "qty", "price", "weight", "placed", "paid", "payload")

# Values of the columns, and the text that the table's view must show for them. NULLs and types change from one row to the
# next, so that a prepared statement has to bind again; a note holds what a rewriter of text might trip over. The doubles are
# such as a float holds: that is what the C extension of mysql-connector binds.
SAMPLES = [
    (("plain", 1, Decimal("12.50"), 0.25, datetime(2024, 2, 29, 13, 14, 15, 123456), True, b"\x00\x01'\\\xff"),
     "plain|1|12.50|0.25|2024-02-29 13:14:15.123456|1|0001275CFF"),
    ((None,) * 7, "NULL|NULL|NULL|NULL|NULL|NULL|NULL"),
    (("it's \"q\" \\ ? (), -- /* é ☃ 😀", -2147483648, Decimal("-0.01"), -1e10, datetime(1999, 12, 31, 23, 59, 59), False, b""),
     "it's \"q\" \\ ? (), -- /* é ☃ 😀|-2147483648|-0.01|-10000000000|1999-12-31 23:59:59.000000|0|"),
    (("", 0, Decimal("9999999999.99"), 0.5, datetime(2000, 1, 1), None, b"NULL"),
     "|0|9999999999.99|0.5|2000-01-01 00:00:00.000000|NULL|4E554C4C"),
]
VALUES = [values for values, _ in SAMPLES]
TEXTS = [text for _, text in SAMPLES]


def short(note, qty):
    """The text of a row of which only note and qty were given."""
    return f"{note}|{qty}|NULL|NULL|NULL|NULL|NULL"


class Check:
    """Counts comparisons and prints a line for each."""

    def __init__(self, driver):
        self.driver = driver
        self.count = 0
        self.wrong = 0

    def same(self, what, expect, got):
        self.count += 1
        if expect == got:
            print(f"  {what}")
        else:
            self.wrong += 1
            print(f"  WRONG {what}: expected {expect!r}, got {got!r}")

    def true(self, what, condition):
        self.same(what, True, bool(condition))

    def done(self):
        if self.wrong:
            print(f"FAILED {self.driver}: {self.wrong} of {self.count} checks")
            sys.exit(1)
        print(f"ok {self.driver}: {self.count} checks")
