"use strict";
// mysql2: text (query) and the binary protocol (execute: prepared once for each text and kept in a cache).

const mysql = require("mysql2/promise");
const { Check, columns, login, samples, short, tables } = require("../common/check.js");

const check = new Check("node mysql2");

async function rowsOf(witness, table, tag) {
  const [rows] = await witness.query(`SELECT id, txt FROM ${table}_text WHERE tag = ? ORDER BY id`, [tag]);
  return rows.map((row) => [row.id, row.txt]);
}

async function single(connection, rows, table, firstId) {
  const insert = `INSERT INTO ${table} (tag, note, qty) VALUES (?, ?, ?)`;
  const [one] = await connection.query(insert, ["mysql2 one", "it's one", 1]);
  const [[last]] = await connection.query("SELECT LAST_INSERT_ID() AS id");
  check.same(`${table}: one row`, [[one.insertId, short("it's one", 1)]], await rows(table, "mysql2 one"));
  check.same(`${table}: LAST_INSERT_ID() is insertId`, one.insertId, last.id);
  check.same(`${table}: id ${one.insertId} is not below ${firstId}`, true, one.insertId >= firstId);

  const marks = columns.map(() => "?").join(", ");
  const all = `INSERT INTO ${table} (tag, ${columns.join(", ")}) VALUES (?, ${marks})`;
  for (const how of ["execute", "query"]) {
    const expect = [];
    for (const [values, text] of samples) {
      const [result] = await connection[how](all, [`mysql2 ${how}`, ...values]);
      expect.push([result.insertId, text]);
    }
    check.same(`${table}: repeated ${how}`, expect, await rows(table, `mysql2 ${how}`));
  }
  const withId = `INSERT INTO ${table} (id, tag, note, qty) VALUES (?, ?, ?, ?)`;
  const [nul] = await connection.execute(withId, [null, "mysql2 null", "n", 1]);
  check.same(`${table}: id bound to NULL`, [[nul.insertId, short("n", 1)]], await rows(table, "mysql2 null"));
}

async function many(connection, rows, table) {
  const tag = "mysql2 several";
  const values = [..."abc"].map((note, i) => [tag, note, i + 1]);
  const [several] = await connection.query(`INSERT INTO ${table} (tag, note, qty) VALUES ?`, [values]);
  const expect = [..."abc"].map((note, i) => [several.insertId + i, short(note, i + 1)]);
  check.same(`${table}: affected rows of several`, 3, several.affectedRows);
  check.same(`${table}: several rows`, expect, await rows(table, tag));

  const prepared = `INSERT INTO ${table} (tag, note, qty) VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?)`;
  const [bound] = await connection.execute(prepared, values.flat().map((v) => (v === tag ? "mysql2 bound" : v)));
  const expectBound = [..."abc"].map((note, i) => [bound.insertId + i, short(note, i + 1)]);
  check.same(`${table}: several rows, prepared`, expectBound, await rows(table, "mysql2 bound"));

  // Commands queue in the driver: the next is sent when the one before has been answered.
  const insert = `INSERT INTO ${table} (tag, note, qty) VALUES (?, ?, ?)`;
  const batch = await Promise.all([...Array(5).keys()].map((i) => connection.execute(insert, ["mysql2 batch", `b'${i}`, i])));
  const expectBatch = batch.map(([result], i) => [result.insertId, short(`b'${i}`, i)]);
  check.same(`${table}: queued executions`, expectBatch, await rows(table, "mysql2 batch"));
}

async function transactions(connection, rows, table) {
  const insert = `INSERT INTO ${table} (tag, note, qty) VALUES (?, ?, ?)`;
  await connection.beginTransaction();
  const [first] = await connection.query(insert, ["mysql2 transaction", "t", 0]);
  const [second] = await connection.execute(insert, ["mysql2 transaction", "t", 1]);
  check.same(`${table}: nothing is seen before the commit`, [], await rows(table, "mysql2 transaction"));
  await connection.commit();
  const expect = [[first.insertId, short("t", 0)], [second.insertId, short("t", 1)]];
  check.same(`${table}: committed`, expect, await rows(table, "mysql2 transaction"));

  await connection.beginTransaction();
  const [gone] = await connection.execute(insert, ["mysql2 rollback", "r", 0]);
  await connection.rollback();
  check.same(`${table}: rolled back`, [], await rows(table, "mysql2 rollback"));
  const [after] = await connection.execute(insert, ["mysql2 rollback", "r", 1]);
  check.same(`${table}: after the rollback`, [[after.insertId, short("r", 1)]], await rows(table, "mysql2 rollback"));
  check.same(`${table}: id ${gone.insertId} is not given again`, true, after.insertId > gone.insertId);
}

async function main() {
  const connection = await mysql.createConnection(login);
  const witness = await mysql.createConnection(login);
  const rows = (table, tag) => rowsOf(witness, table, tag);
  for (const [table, firstId] of Object.entries(tables)) {
    await single(connection, rows, table, firstId);
    await many(connection, rows, table);
    await transactions(connection, rows, table);
  }
  await connection.end();
  await witness.end();
  check.done();
}

main().catch((error) => {
  console.error(error.stack);
  process.exit(1);
});
