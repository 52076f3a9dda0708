package drivers;

import static drivers.Check.brief;

import drivers.Check.Row;
import drivers.Check.Sample;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.MappedSuperclass;
import jakarta.persistence.Table;
import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/**
 * Hibernate with GenerationType.IDENTITY, over both JDBC drivers: it inserts one by one, whatever jdbc.batch_size says, and asks
 * for generated keys (no RETURNING, on MariaDB neither). It makes no tables here.
 */
public final class Hibernate {
    @MappedSuperclass
    public abstract static class Base {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        public Long id;

        public String tag;
        public String note;
        public Integer qty;
        public BigDecimal price;
        public Double weight;
        public LocalDateTime placed;
        public Boolean paid;
        public byte[] payload;

        Base with(String tag, String note, Integer qty) {
            this.tag = tag;
            this.note = note;
            this.qty = qty;
            return this;
        }

        Base with(String tag, Sample sample) {
            Object[] values = sample.values();
            with(tag, (String) values[0], (Integer) values[1]);
            price = (BigDecimal) values[2];
            weight = (Double) values[3];
            placed = (LocalDateTime) values[4];
            paid = (Boolean) values[5];
            payload = (byte[]) values[6];
            return this;
        }
    }

    @Entity(name = "Orders")
    @Table(name = "orders")
    public static class Order extends Base {}

    @Entity(name = "Kept")
    @Table(name = "kept")
    public static class Kept extends Base {}

    private final Check check;
    private final SessionFactory factory;
    private final String name;

    private Hibernate(Check check, SessionFactory factory, String name) {
        this.check = check;
        this.factory = factory;
        this.name = name;
    }

    public static void main(String[] args) throws Exception {
        Logger.getLogger("org.hibernate").setLevel(Level.SEVERE);
        Check check = new Check("Hibernate");
        List<String> urls = List.of("mysql?", "mariadb?" + MariaDbConnectorJ.keyOption());
        for (String url : urls) {
            String scheme = url.substring(0, url.indexOf('?'));
            Configuration configuration = new Configuration()
                    .addAnnotatedClass(Order.class)
                    .addAnnotatedClass(Kept.class)
                    .setProperty("hibernate.connection.url", "jdbc:" + scheme + "://" + Check.HOST + ":" + Check.PORT + "/"
                            + Check.DATABASE + url.substring(url.indexOf('?')))
                    .setProperty("hibernate.connection.username", Check.USER)
                    .setProperty("hibernate.connection.password", Check.PASSWORD)
                    .setProperty("hibernate.jdbc.batch_size", "50");
            try (SessionFactory factory = configuration.buildSessionFactory()) {
                Hibernate program = new Hibernate(check, factory, "hibernate " + scheme);
                program.table("kept", 7000, Kept::new);
                program.table("orders", 5000, Order::new);
            }
        }
        check.done();
    }

    private List<Row> rows(String table, String tag) {
        try (Session session = factory.openSession()) {
            String query = "SELECT id, txt FROM " + table + "_text WHERE tag = :tag ORDER BY id";
            return session.createNativeQuery(query, Object[].class).setParameter("tag", tag).getResultList().stream()
                    .map(row -> new Row(((Number) row[0]).longValue(), (String) row[1]))
                    .toList();
        }
    }

    private String line(String table, String what) {
        return table + " (" + name + "): " + what;
    }

    private void table(String table, long firstId, Supplier<Base> make) {
        try (Session session = factory.openSession()) {
            Base one = make.get().with(name + " one", "it's one", 1);
            session.beginTransaction();
            session.persist(one);
            Object function = session.createNativeQuery("SELECT LAST_INSERT_ID()", Object.class).getSingleResult();
            session.getTransaction().commit();
            check.same(line(table, "one entity"), List.of(new Row(one.id, brief("it's one", 1))), rows(table, one.tag));
            check.same(line(table, "LAST_INSERT_ID() is its id"), one.id, ((Number) function).longValue());
            check.same(line(table, "id " + one.id + " is not below " + firstId), true, one.id >= firstId);

            session.beginTransaction();
            List<Row> expect = new ArrayList<>();
            for (Sample sample : Check.SAMPLES) {
                Base entity = make.get().with(name + " repeated", sample);
                session.persist(entity);
                expect.add(new Row(entity.id, sample.text()));
            }
            session.getTransaction().commit();
            check.same(line(table, "entities of varied types"), expect, rows(table, name + " repeated"));

            String insert = "INSERT INTO " + table + " (tag, note, qty) VALUES (:tag, 's', 0), (:tag, 's', 1), (:tag, 's', 2)";
            session.beginTransaction();
            int affected = session.createNativeMutationQuery(insert).setParameter("tag", name + " several").executeUpdate();
            session.getTransaction().commit();
            check.same(line(table, "affected rows of several"), 3, affected);
            check.same(line(table, "several rows"), 3, rows(table, name + " several").size());
        }
        try (Session session = factory.openSession()) {
            transactions(session, table, make);
        }
    }

    private void transactions(Session session, String table, Supplier<Base> make) {
        String tag = name + " transaction";
        List<Long> ids = new ArrayList<>();
        session.beginTransaction();
        for (int i = 0; i < 20; i++) {
            Base entity = make.get().with(tag, "t", i);
            session.persist(entity);
            ids.add(entity.id);
        }
        check.same(line(table, "nothing is seen before the commit"), List.of(), rows(table, tag));
        session.getTransaction().commit();
        check.same(line(table, "committed"), Check.rows(ids, "t"), rows(table, tag));

        tag = name + " rollback";
        Base gone = make.get().with(tag, "t", 1);
        session.beginTransaction();
        session.persist(gone);
        long goneId = gone.id;
        session.getTransaction().rollback();
        session.clear();
        check.same(line(table, "rolled back"), List.of(), rows(table, tag));
        Base after = make.get().with(tag, "t", 0);
        session.beginTransaction();
        session.persist(after);
        session.getTransaction().commit();
        check.same(line(table, "after the rollback"), Check.rows(List.of(after.id), "t"), rows(table, tag));
        check.same(line(table, "id " + goneId + " is not given again"), true, after.id > goneId);
    }
}
