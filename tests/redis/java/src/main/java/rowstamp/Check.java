package rowstamp;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** What the program of a client is asked to do, and the count of its checks: see README.md of the campaign. */
final class Check {
    static final int[] PORTS = Arrays.stream(System.getenv("ROWSTAMP_PORTS").split(" ")).mapToInt(Integer::parseInt).toArray();
    static final String CA = System.getenv("ROWSTAMP_CA");
    private static final String ORDERS = "shop.orders";
    private static final String STEPPED = "shop.stepped";
    private static final String T = "shop.t";
    private static final String NOPE = "shop.nope";
    /** The second proxy's sequences begin here: an id tells who gave it. */
    private static final long SECOND = 1_000_000_000;
    /** After a proxy was killed, a client must have an id from the other one within this time. */
    private static final long SOON_MS = 15_000;

    record User(String name, String password) {}

    /** What a program has of its library. */
    interface Client {
        long incr(String key) throws Exception;

        long incrBy(String key, long n) throws Exception;

        List<Long> pipeline(List<String> keys) throws Exception;

        String get(String key) throws Exception;

        List<String> mget(String... keys) throws Exception;

        long exists(String... keys) throws Exception;

        void set(String key, String value) throws Exception;

        /** Numbers as Long, text as String. The second word is a key, where there is one. */
        List<Object> raw(String... words) throws Exception;
    }

    private final Set<String> ids = new HashSet<>();
    private int checks;
    private int wrong;

    private void that(String what, boolean holds, Object found) {
        checks++;
        if (!holds) {
            wrong++;
            System.out.println("WRONG " + what + ": " + found);
        }
    }

    private void same(String what, Object found, Object expect) {
        that(what, String.valueOf(found).equals(String.valueOf(expect)), found + ", and not " + expect);
    }

    private void drawn(String what, String key, List<Long> drawn) {
        int before = ids.size();
        drawn.forEach(id -> ids.add(key + " " + id));
        that(what + ": ids that nobody has", ids.size() == before + drawn.size(), drawn);
    }

    private void refused(String what, String text, Callable<?> call) {
        try {
            that(what + ": an error", false, call.call());
        } catch (Exception error) {
            String said = told(error);
            that(what + ": its error", said.contains(text), said);
        }
    }

    /** An error, with those that it stands for. */
    static String told(Throwable error) {
        var all = new ArrayList<String>();
        for (var one = error; one != null; one = one.getCause()) {
            all.add(one.toString());
            Arrays.stream(one.getSuppressed()).forEach(other -> all.add(other.toString()));
        }
        return String.join("; ", all);
    }

    /** From first to last, both among them. */
    private static List<Long> span(long first, long last, long step) {
        return LongStream.iterate(first, one -> one <= last, one -> one + step).boxed().toList();
    }

    private static List<Long> numbers(List<Object> found) {
        return found.stream().map(Long.class::cast).toList();
    }

    /** INCRBY, a pipeline and ROWSTAMP.TAKE of a sequence, after its id first; the last id. */
    private long draw(Client client, String key, long first, long step) throws Exception {
        drawn("INCR " + key, key, List.of(first));
        long last = client.incrBy(key, 10);
        drawn("INCRBY " + key + " 10", key, span(first + step, last, step));
        same("INCRBY " + key + " 10", last, first + 10 * step);
        var pipeline = client.pipeline(Collections.nCopies(100, key));
        drawn("100 INCR " + key + " in a pipeline", key, pipeline);
        same("100 INCR " + key + " in a pipeline", pipeline, span(last + step, last + 100 * step, step));
        var runs = numbers(client.raw("ROWSTAMP.TAKE", key, "5"));
        same("ROWSTAMP.TAKE " + key + " 5", runs, List.of(pipeline.get(99) + step, 5, step));
        last = runs.get(0) + 4 * step;
        drawn("ROWSTAMP.TAKE " + key + " 5", key, span(runs.get(0), last, step));
        return last;
    }

    private void drawTimestamps(Client client) throws Exception {
        long first = client.incr(T);
        drawn("INCR " + T, T, List.of(first));
        long last = client.incrBy(T, 10);
        drawn("INCRBY " + T + " 10", T, span(last - 9, last, 1));
        var pipeline = client.pipeline(Collections.nCopies(100, T));
        drawn("100 INCR " + T + " in a pipeline", T, pipeline);
        var all = Stream.concat(Stream.of(first, last - 9, last), pipeline.stream()).toList();
        same(T + " ascends", all, all.stream().sorted().toList());
        that(T + " is above 2^53", first > 1L << 53, first);
        var runs = numbers(client.raw("ROWSTAMP.TAKE", T, "10"));
        long sum = 0;
        for (int at = 0; at < runs.size(); at += 3) {
            long begin = runs.get(at);
            long count = runs.get(at + 1);
            long step = runs.get(at + 2);
            drawn("ROWSTAMP.TAKE " + T + " 10", T, span(begin, begin + (count - 1) * step, step));
            sum += count;
        }
        same("ROWSTAMP.TAKE " + T + " 10: how many", sum, 10);
        var parts = client.raw("ROWSTAMP.DECODE", T, Long.toString(first));
        int node = parts.indexOf("node");
        that("ROWSTAMP.DECODE " + T, node >= 0 && List.of(0L, 1L).contains(parts.get(node + 1)), parts);
    }

    /** open: a client that logs in as the user. */
    void run(String library, boolean isCluster, Function<User, Client> open) throws Exception {
        var client = open.apply(new User("labels", "s3cret"));
        same("GET before the first id", client.get(ORDERS), null);
        long first = client.incr(ORDERS);
        var last = Long.toString(draw(client, ORDERS, first, 1));
        same("GET " + ORDERS, client.get(ORDERS), last);
        // Different keys of one command have different slots, and then a cluster client does not send it.
        if (isCluster) {
            same("MGET", client.mget(ORDERS, ORDERS), List.of(last, last));
            same("EXISTS", client.exists(ORDERS, ORDERS), 2);
        } else {
            same("MGET", client.mget(ORDERS, STEPPED, NOPE), Arrays.asList(last, null, null));
            same("EXISTS", client.exists(ORDERS, STEPPED, NOPE), 2);
        }
        draw(client, STEPPED, client.incr(STEPPED), 10);
        drawTimestamps(client);
        same("ROWSTAMP.LIST", client.raw("ROWSTAMP.LIST"), List.of(ORDERS, STEPPED, T));
        refused("INCR " + NOPE, "the rules have no generator", () -> client.incr(NOPE));
        refused("SET", "unknown command 'SET'", () -> {
            client.set(ORDERS, "1");
            return null;
        });
        refused("INCRBY 0", "is not a number of ids", () -> client.incrBy(ORDERS, 0));
        var reader = open.apply(new User("reader", "r3ad"));
        var seen = reader.get(ORDERS);
        that("GET as a reader", seen == null || Long.parseLong(seen) > 0, seen);
        refused("INCR as a reader", "NOPERM", () -> reader.incr(ORDERS));
        refused("a wrong password", "WRONGPASS", () -> open.apply(new User("reader", "wrong")).get(ORDERS));
        drawn("INCR " + ORDERS + " after all errors", ORDERS, List.of(client.incr(ORDERS)));
        if (isCluster) {
            lose(client, first >= SECOND);
        }
        if (wrong == 0) {
            System.out.println("ok " + library + ": " + checks + " checks");
        }
        System.exit(wrong == 0 ? 0 : 1);
    }

    /** The proxy that the client uses is killed: it has to go on with the other one. */
    private void lose(Client client, boolean usesSecond) throws Exception {
        System.out.println("kill " + (usesSecond ? 2 : 1));
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        long begun = System.currentTimeMillis();
        var failed = new ArrayList<String>();
        long first = 0;
        while (first == 0) {
            try {
                first = client.incr(ORDERS);
            } catch (Exception error) {
                failed.add(told(error));
                if (System.currentTimeMillis() - begun > SOON_MS) {
                    that("the other proxy", false, failed.size() + " calls failed, the last with " + failed.get(failed.size() - 1));
                    return;
                }
                Thread.sleep(50);
            }
        }
        var took = (System.currentTimeMillis() - begun) / 1000.0;
        var why = failed.isEmpty() ? "" : " (" + failed.get(0) + ")";
        System.out.println("note went on after " + took + " s, " + failed.size() + " calls failed" + why);
        that("the other proxy", first >= SECOND != usesSecond, first);
        draw(client, ORDERS, first, 1);
        draw(client, STEPPED, client.incr(STEPPED), 10);
        drawTimestamps(client);
    }

    /** The version of a library, by the name of its jar. */
    static String version(Class<?> of) {
        var jar = of.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*-([0-9][0-9.]*[0-9]).*", "$1");
    }
}
