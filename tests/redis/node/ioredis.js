// ioredis: Redis, its pipeline, and Cluster.

"use strict";

const { readFileSync } = require("node:fs");
const Redis = require("ioredis");
const { version } = require("ioredis/package.json");
const { CA, Check, PORTS, run } = require("./check");

const MODE = process.argv[2];
const IS_CLUSTER = MODE.startsWith("cluster");
const OPTIONS = MODE.endsWith("tls") ? { tls: { ca: readFileSync(CA) } } : { protocol: Number(MODE.at(-1)) };

function connect([username, password], own) {
  const options = { username, password, ...OPTIONS, ...own };
  if (!IS_CLUSTER) return new Redis({ host: "127.0.0.1", port: PORTS[0], ...options });
  return new Redis.Cluster(PORTS.map((port) => ({ host: "127.0.0.1", port })), { redisOptions: options });
}

class Client {
  constructor(user) {
    this.redis = connect(user, {});
    // The ids of a timestamp generator are above what a number of JavaScript holds: as text they keep their last digits.
    this.exact = connect(user, { stringNumbers: true });
    // A cluster that cannot log in tells it here alone, and asks again for ever.
    const told = [this.redis, this.exact].map((one) => new Promise((_, no) => one.on("error", (error) => no(error.lastNodeError ?? error))));
    this.failed = Promise.race(told);
    this.failed.catch(() => {});
  }

  for(key) {
    return key === "shop.t" ? this.exact : this.redis;
  }

  async incr(key) {
    return BigInt(await this.for(key).incr(key));
  }

  async incrby(key, n) {
    return BigInt(await this.for(key).incrby(key, n));
  }

  async pipeline(keys) {
    const pipe = this.for(keys[0]).pipeline();
    for (const key of keys) pipe.incr(key);
    return (await pipe.exec()).map(([error, id]) => {
      if (error) throw error;
      return BigInt(id);
    });
  }

  get(key) {
    return this.redis.get(key);
  }

  mget(keys) {
    return this.redis.mget(keys);
  }

  exists(keys) {
    return this.redis.exists(keys);
  }

  set(key, value) {
    return this.redis.set(key, value);
  }

  raw(...words) {
    return this.for(words[1]).call(...words);
  }
}

async function open(user) {
  const client = new Client(user);
  if (user[1] === "wrong") {
    await Promise.race([client.get("shop.orders"), client.failed]).finally(() => {
      client.redis.disconnect();
      client.exact.disconnect();
    });
  }
  return client;
}

const check = new Check();
run(check, open, IS_CLUSTER).then(() => check.end(`ioredis ${version}`));
