package rowstamp;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.StatefulConnection;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Lettuce: RedisClient, its pipeline by hand, and RedisClusterClient. */
final class LettuceProgram {
    private record Keyword(String name) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return name.getBytes(StandardCharsets.UTF_8);
        }
    }

    private record Library(StatefulConnection<String, String> connection, RedisClusterAsyncCommands<String, String> redis)
            implements Check.Client {
        private static <T> T wait(Future<T> answer) throws Exception {
            return answer.get(5, TimeUnit.SECONDS);
        }

        @Override
        public long incr(String key) throws Exception {
            return wait(redis.incr(key));
        }

        @Override
        public long incrBy(String key, long n) throws Exception {
            return wait(redis.incrby(key, n));
        }

        @Override
        public List<Long> pipeline(List<String> keys) throws Exception {
            connection.setAutoFlushCommands(false);
            var answers = keys.stream().map(redis::incr).toList();
            connection.flushCommands();
            connection.setAutoFlushCommands(true);
            var ids = new java.util.ArrayList<Long>();
            for (var answer : answers) {
                ids.add(wait(answer));
            }
            return ids;
        }

        @Override
        public String get(String key) throws Exception {
            return wait(redis.get(key));
        }

        @Override
        public List<String> mget(String... keys) throws Exception {
            return wait(redis.mget(keys)).stream().map(value -> value.getValueOrElse(null)).toList();
        }

        @Override
        public long exists(String... keys) throws Exception {
            return wait(redis.exists(keys));
        }

        @Override
        public void set(String key, String value) throws Exception {
            wait(redis.set(key, value));
        }

        @Override
        public List<Object> raw(String... words) throws Exception {
            var args = new CommandArgs<>(StringCodec.UTF8);
            for (int at = 1; at < words.length; at++) {
                if (at == 1) {
                    args.addKey(words[at]);
                } else {
                    args.add(words[at]);
                }
            }
            return wait(redis.dispatch(new Keyword(words[0]), new ArrayOutput<>(StringCodec.UTF8), args));
        }
    }

    private static Check.Client open(String mode, Check.User user) {
        var isTls = mode.endsWith("tls");
        var nodes = Arrays.stream(Check.PORTS)
                .mapToObj(port -> RedisURI.builder().withHost("127.0.0.1").withPort(port).withSsl(isTls)
                        .withAuthentication(user.name(), user.password()).build())
                .toList();
        if (mode.startsWith("cluster")) {
            var refresh = ClusterTopologyRefreshOptions.builder();
            var options = ClusterClientOptions.builder().topologyRefreshOptions(refresh.build());
            set(options, mode);
            var client = RedisClusterClient.create(nodes);
            client.setOptions(options.build());
            var connection = client.connect();
            return new Library(connection, connection.async());
        }
        var options = ClientOptions.builder();
        set(options, mode);
        var client = RedisClient.create(nodes.get(0));
        client.setOptions(options.build());
        var connection = client.connect();
        return new Library(connection, connection.async());
    }

    private static void set(ClientOptions.Builder options, String mode) {
        if (mode.endsWith("tls")) {
            options.sslOptions(SslOptions.builder().trustManager(new File(Check.CA)).build());
        } else {
            options.protocolVersion(mode.endsWith("2") ? ProtocolVersion.RESP2 : ProtocolVersion.RESP3);
        }
    }

    public static void main(String[] args) throws Exception {
        var library = "lettuce " + Check.version(RedisClient.class);
        new Check().run(library, args[0].startsWith("cluster"), user -> open(args[0], user));
    }
}
