// node-redis: createClient, a pipeline of it, and createCluster.

"use strict";

const { readFileSync } = require("node:fs");
const { RESP_TYPES, createClient, createCluster } = require("redis");
const { version } = require("redis/package.json");
const { CA, Check, PORTS, run } = require("./check");

const MODE = process.argv[2];
const IS_CLUSTER = MODE.startsWith("cluster");
const IS_TLS = MODE.endsWith("tls");
const OPTIONS = IS_TLS ? {} : { RESP: Number(MODE.at(-1)) };
const SOCKET = IS_TLS ? { tls: true, ca: readFileSync(CA) } : {};
const EXACT = { [RESP_TYPES.NUMBER]: String };

function connect([username, password]) {
  const login = { username, password };
  if (!IS_CLUSTER) return createClient({ ...OPTIONS, ...login, socket: { host: "127.0.0.1", port: PORTS[0], ...SOCKET } });
  const rootNodes = PORTS.map((port) => ({ socket: { host: "127.0.0.1", port } }));
  return createCluster({ ...OPTIONS, rootNodes, defaults: { ...login, socket: SOCKET } });
}

class Client {
  constructor(user) {
    this.redis = connect(user);
    // What cannot log in tells it here alone, and tries again for ever.
    this.failed = new Promise((_, no) => this.redis.on("error", no));
    this.failed.catch(() => {});
    // The ids of a timestamp generator are above what a number of JavaScript holds: as text they keep their last digits.
    this.exact = this.redis.withTypeMapping(EXACT);
  }

  for(key) {
    return key === "shop.t" ? this.exact : this.redis;
  }

  async incr(key) {
    return BigInt(await this.for(key).incr(key));
  }

  async incrby(key, n) {
    return BigInt(await this.for(key).incrBy(key, n));
  }

  async pipeline(keys) {
    // The pipeline of a cluster's client gives numbers, whatever the mapping; commands without an await between them are one, too.
    if (IS_CLUSTER && keys[0] === "shop.t") return Promise.all(keys.map((key) => this.incr(key)));
    const pipe = this.for(keys[0]).multi();
    for (const key of keys) pipe.incr(key);
    return (await pipe.execAsPipeline()).map(BigInt);
  }

  get(key) {
    return this.redis.get(key);
  }

  mget(keys) {
    return this.redis.mGet(keys);
  }

  exists(keys) {
    return this.redis.exists(keys);
  }

  set(key, value) {
    return this.redis.set(key, value);
  }

  raw(...words) {
    const client = this.for(words[1]);
    return IS_CLUSTER ? client.sendCommand(words[1], false, words) : client.sendCommand(words);
  }
}

async function open(user) {
  const client = new Client(user);
  await Promise.race([client.redis.connect(), client.failed]).catch((error) => {
    client.redis.destroy();
    throw error;
  });
  return client;
}

const check = new Check();
run(check, open, IS_CLUSTER).then(() => check.end(`node-redis ${version}`));
