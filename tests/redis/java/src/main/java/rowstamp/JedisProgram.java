package rowstamp;

import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;

/** Jedis: RedisClient, which was JedisPooled, its pipeline, and RedisClusterClient, which was JedisCluster. */
final class JedisProgram {
    private record Library(UnifiedJedis redis) implements Check.Client {
        @Override
        public long incr(String key) {
            return redis.incr(key);
        }

        @Override
        public long incrBy(String key, long n) {
            return redis.incrBy(key, n);
        }

        @Override
        public List<Long> pipeline(List<String> keys) {
            var answers = new ArrayList<Response<Long>>();
            try (AbstractPipeline pipe = redis.pipelined()) {
                keys.forEach(key -> answers.add(pipe.incr(key)));
            }
            return answers.stream().map(Response::get).toList();
        }

        @Override
        public String get(String key) {
            return redis.get(key);
        }

        @Override
        public List<String> mget(String... keys) {
            return redis.mget(keys);
        }

        @Override
        public long exists(String... keys) {
            return redis.exists(keys);
        }

        @Override
        public void set(String key, String value) {
            redis.set(key, value);
        }

        @Override
        public List<Object> raw(String... words) {
            ProtocolCommand command = () -> words[0].getBytes(StandardCharsets.UTF_8);
            var rest = Arrays.copyOfRange(words, 1, words.length);
            var found = (List<?>) (rest.length == 0 ? redis.sendCommand(command) : redis.sendCommand(rest[0], command, rest));
            return found.stream().flatMap(JedisProgram::parts).toList();
        }
    }

    /** Of a map, which a list of pairs is, its keys and values. */
    private static java.util.stream.Stream<Object> parts(Object found) {
        if (found instanceof redis.clients.jedis.util.KeyValue<?, ?> pair) {
            return java.util.stream.Stream.of(pair.getKey(), pair.getValue()).flatMap(JedisProgram::parts);
        }
        return java.util.stream.Stream.of(found instanceof byte[] text ? new String(text, StandardCharsets.UTF_8) : found);
    }

    private static SSLSocketFactory trusting(String file) throws Exception {
        var trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (var pem = new FileInputStream(file)) {
            trusted.setCertificateEntry("rowstamp", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        var context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context.getSocketFactory();
    }

    private static Check.Client open(String mode, Check.User user) {
        var config = DefaultJedisClientConfig.builder().user(user.name()).password(user.password());
        if (mode.endsWith("tls")) {
            try {
                config.ssl(true).sslSocketFactory(trusting(Check.CA));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        } else {
            config.protocol(mode.endsWith("2") ? RedisProtocol.RESP2 : RedisProtocol.RESP3);
        }
        var nodes = Arrays.stream(Check.PORTS).mapToObj(port -> new HostAndPort("127.0.0.1", port)).toList();
        if (mode.startsWith("cluster")) {
            var all = nodes.stream().collect(Collectors.toSet());
            return new Library(RedisClusterClient.builder().nodes(all).clientConfig(config.build()).build());
        }
        return new Library(RedisClient.builder().hostAndPort(nodes.get(0)).clientConfig(config.build()).build());
    }

    public static void main(String[] args) throws Exception {
        var library = "jedis " + Check.version(UnifiedJedis.class);
        new Check().run(library, args[0].startsWith("cluster"), user -> open(args[0], user));
    }
}
