"use strict";
// What both programs need: the address, the rows that they write, and the count of their checks.

const { isDeepStrictEqual } = require("node:util");

const env = process.env;
const login = {
  host: env.ROWSTAMP_HOST,
  port: Number(env.ROWSTAMP_PORT),
  user: env.ROWSTAMP_USER,
  password: env.ROWSTAMP_PASSWORD,
  database: env.ROWSTAMP_DATABASE,
};

// The tables and the least id that each may hand out.
const tables = { orders: 5000, kept: 7000 };

const columns = ["note", "qty", "price", "weight", "placed", "paid", "payload"];

// Values of the columns, and the text that the table's view must show for them. NULLs and types change from one row to
// the next, so that a prepared statement has to bind again. A Date is in local time for both drivers.
const samples = [
  [
    ["plain", 1, "12.50", 0.25, new Date(2024, 1, 29, 13, 14, 15, 123), true, Buffer.from([0, 1, 0x27, 0x5c, 0xff])],
    "plain|1|12.50|0.25|2024-02-29 13:14:15.123000|1|0001275CFF",
  ],
  [Array(7).fill(null), "NULL|NULL|NULL|NULL|NULL|NULL|NULL"],
  [
    ["it's \"q\" \\ ? (), -- /* é ☃ 😀", -2147483648, -0.01, -1e10, new Date(1999, 11, 31, 23, 59, 59), false, Buffer.alloc(0)],
    "it's \"q\" \\ ? (), -- /* é ☃ 😀|-2147483648|-0.01|-10000000000|1999-12-31 23:59:59.000000|0|",
  ],
  [
    ["", 0, "9999999999.99", 0.5, "2000-01-01 00:00:00", null, Buffer.from("NULL")],
    "|0|9999999999.99|0.5|2000-01-01 00:00:00.000000|NULL|4E554C4C",
  ],
];

/** The text of a row of which only note and qty were given. */
const short = (note, qty) => `${note}|${qty}|NULL|NULL|NULL|NULL|NULL`;

class Check {
  constructor(driver) {
    this.driver = driver;
    this.count = 0;
    this.wrong = 0;
  }

  same(what, expect, got) {
    this.count += 1;
    if (isDeepStrictEqual(expect, got)) {
      console.log(`  ${what}`);
    } else {
      this.wrong += 1;
      const show = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}n` : v));
      console.log(`  WRONG ${what}: expected ${show(expect)}, got ${show(got)}`);
    }
  }

  done() {
    if (this.wrong) {
      console.log(`FAILED ${this.driver}: ${this.wrong} of ${this.count} checks`);
      process.exitCode = 1;
    } else {
      console.log(`ok ${this.driver}: ${this.count} checks`);
    }
  }
}

module.exports = { Check, columns, login, samples, short, tables };
