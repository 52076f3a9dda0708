"""redis-py: redis.Redis, its pipeline without a transaction, and redis.cluster.RedisCluster."""

import sys

import redis
from redis.cluster import ClusterNode, RedisCluster

from check import CA, PORTS, Check, run

MODE = sys.argv[1]
IS_CLUSTER = MODE.startswith("cluster")
OPTIONS = {"decode_responses": True}
if MODE.endswith("tls"):
    OPTIONS |= {"ssl": True, "ssl_ca_certs": CA}
else:
    OPTIONS |= {"protocol": int(MODE[-1])}


class Client:
    def __init__(self, user):
        login = OPTIONS | {"username": user[0], "password": user[1]}
        if IS_CLUSTER:
            nodes = [ClusterNode("127.0.0.1", port) for port in PORTS]
            # Its default forgets the nodes that it was given for those that CLUSTER SLOTS has: this proxy alone.
            self.redis = RedisCluster(startup_nodes=nodes, dynamic_startup_nodes=False, **login)
        else:
            self.redis = redis.Redis("127.0.0.1", PORTS[0], **login)

    def incr(self, key):
        return self.redis.incr(key)

    def incrby(self, key, n):
        return self.redis.incrby(key, n)

    def pipeline(self, keys):
        with self.redis.pipeline() if IS_CLUSTER else self.redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.incr(key)
            return pipe.execute()

    def get(self, key):
        return self.redis.get(key)

    def mget(self, keys):
        return self.redis.mget(keys)

    def exists(self, keys):
        return self.redis.exists(*keys)

    def set(self, key, value):
        return self.redis.set(key, value)

    def raw(self, *words):
        if words[0] == "ROWSTAMP.LIST" and IS_CLUSTER:
            # A command without keys: the program says whom to ask.
            return self.redis.execute_command(*words, target_nodes=self.redis.get_default_node())
        found = self.redis.execute_command(*words)
        if words[0] == "ROWSTAMP.DECODE" and isinstance(found, list):
            return dict(zip(found[::2], found[1::2]))
        return found


# A cluster's client says it of the whole cluster, and does not send what COMMAND does not have.
OF_LOGIN, OF_SET = (
    (redis.exceptions.RedisClusterException, redis.RedisError)
    if IS_CLUSTER
    else (redis.AuthenticationError, redis.ResponseError)
)
CHECK = Check()
run(
    CHECK,
    Client,
    (redis.ResponseError, redis.exceptions.NoPermissionError, OF_LOGIN, OF_SET),
    is_cluster=IS_CLUSTER,
)
CHECK.end(f"redis-py {redis.__version__}")
