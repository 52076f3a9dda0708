"use strict";
// The mariadb connector: text (query), the binary protocol (execute) and batch, which is MariaDB's bulk execution where the
// server has it. It pipelines: PREPARE and its first EXECUTE (statement -1) travel together, as do queued commands.

const mariadb = require("mariadb");
const { Check, columns, login, samples, short, tables } = require("../common/check.js");

const check = new Check("node mariadb");

async function rowsOf(witness, table, tag) {
  const rows = await witness.query(`SELECT id, txt FROM ${table}_text WHERE tag = ? ORDER BY id`, [tag]);
  return rows.map((row) => [row.id, row.txt]);
}

async function single(connection, rows, table, firstId) {
  const insert = `INSERT INTO ${table} (tag, note, qty) VALUES (?, ?, ?)`;
  const one = await connection.query(insert, ["mariadb one", "it's one", 1]);
  const [last] = await connection.query("SELECT LAST_INSERT_ID() AS id");
  check.same(`${table}: one row`, [[one.insertId, short("it's one", 1)]], await rows(table, "mariadb one"));
  check.same(`${table}: LAST_INSERT_ID() is insertId`, one.insertId, last.id);
  check.same(`${table}: id ${one.insertId} is not below ${firstId}`, true, one.insertId >= firstId);

  const marks = columns.map(() => "?").join(", ");
  const all = `INSERT INTO ${table} (tag, ${columns.join(", ")}) VALUES (?, ${marks})`;
  for (const how of ["execute", "query"]) {
    const expect = [];
    for (const [values, text] of samples) {
      const result = await connection[how](all, [`mariadb ${how}`, ...values]);
      expect.push([result.insertId, text]);
    }
    check.same(`${table}: repeated ${how}`, expect, await rows(table, `mariadb ${how}`));
  }
  const statement = await connection.prepare(`INSERT INTO ${table} (id, tag, note, qty) VALUES (?, ?, ?, ?)`);
  const nul = await statement.execute([null, "mariadb null", "n", 1]);
  statement.close();
  check.same(`${table}: id bound to NULL`, [[nul.insertId, short("n", 1)]], await rows(table, "mariadb null"));
}

async function many(connection, rows, table) {
  const insert = `INSERT INTO ${table} (tag, note, qty) VALUES (?, ?, ?)`;
  const three = `${insert}, (?, ?, ?), (?, ?, ?)`;
  for (const how of ["query", "execute"]) {
    const tag = `mariadb several ${how}`;
    const several = await connection[how](three, [..."abc"].flatMap((note, i) => [tag, note, i + 1]));
    const expect = [..."abc"].map((note, i) => [several.insertId + BigInt(i), short(note, i + 1)]);
    check.same(`${table}: affected rows of several, ${how}`, 3, several.affectedRows);
    check.same(`${table}: several rows, ${how}`, expect, await rows(table, tag));
  }

  const values = [...Array(5).keys()].map((i) => ["mariadb batch", i === 2 ? null : `b'${i}`, i]);
  const batch = await connection.batch(insert, values);
  const got = await rows(table, "mariadb batch");
  const ids = got.map(([id]) => id);
  check.same(`${table}: rows of the batch`, values.map(([, note, qty]) => short(note ?? "NULL", qty)), got.map(([, txt]) => txt));
  // Bulk execution reports one result, of the first id; without it the executions are pipelined, with a result each.
  if (Array.isArray(batch)) {
    check.same(`${table}: the batch's ids`, ids, batch.map((result) => result.insertId));
  } else {
    check.same(`${table}: the bulk's affected rows and first id`, [5, ids[0]], [batch.affectedRows, batch.insertId]);
  }

  const queued = values.map(([, note, qty]) => connection.execute(insert, ["mariadb queued", note, qty]));
  const expect = (await Promise.all(queued)).map((result, i) => [result.insertId, short(values[i][1] ?? "NULL", i)]);
  check.same(`${table}: pipelined executions`, expect, await rows(table, "mariadb queued"));
}

async function transactions(connection, rows, table) {
  const insert = `INSERT INTO ${table} (tag, note, qty) VALUES (?, ?, ?)`;
  await connection.beginTransaction();
  const first = await connection.query(insert, ["mariadb transaction", "t", 0]);
  const second = await connection.execute(insert, ["mariadb transaction", "t", 1]);
  check.same(`${table}: nothing is seen before the commit`, [], await rows(table, "mariadb transaction"));
  await connection.commit();
  const expect = [[first.insertId, short("t", 0)], [second.insertId, short("t", 1)]];
  check.same(`${table}: committed`, expect, await rows(table, "mariadb transaction"));

  await connection.beginTransaction();
  const gone = await connection.execute(insert, ["mariadb rollback", "r", 0]);
  await connection.rollback();
  check.same(`${table}: rolled back`, [], await rows(table, "mariadb rollback"));
  const after = await connection.execute(insert, ["mariadb rollback", "r", 1]);
  check.same(`${table}: after the rollback`, [[after.insertId, short("r", 1)]], await rows(table, "mariadb rollback"));
  check.same(`${table}: id ${gone.insertId} is not given again`, true, after.insertId > gone.insertId);
}

// Without TLS, which is off by default, it answers caching_sha2_password's full exchange only if it may ask for the server's
// key; what is between it and the server cannot change that.
async function connect() {
  try {
    return await mariadb.createConnection(login);
  } catch (error) {
    if (error.code !== "ER_CANNOT_RETRIEVE_RSA_KEY") throw error;
    console.log(`note: its defaults refuse this server (${error.code}): connecting with allowPublicKeyRetrieval`);
    return mariadb.createConnection({ ...login, allowPublicKeyRetrieval: true });
  }
}

async function main() {
  const connection = await connect();
  const witness = await connect();
  const rows = (table, tag) => rowsOf(witness, table, tag);
  for (const [table, firstId] of Object.entries(tables)) {
    await single(connection, rows, table, BigInt(firstId));
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
