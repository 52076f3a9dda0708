"""SQLAlchemy on PyMySQL: Core and ORM.

On MariaDB it appends RETURNING to what the ORM inserts, many rows a statement; on MySQL it inserts objects one by one and
reads lastrowid.
"""

import sqlalchemy as sa
from check import COLUMNS, DATABASE, HOST, PASSWORD, PORT, TABLES, TEXTS, USER, VALUES, Check, short
from sqlalchemy import orm
from sqlalchemy.dialects import mysql

url = sa.URL.create("mysql+pymysql", USER, PASSWORD, HOST, PORT, DATABASE)
engine = sa.create_engine(url)
check = Check("SQLAlchemy")


class Base(orm.DeclarativeBase):
    pass


class Row:
    """The columns of both tables; the default of an integer primary key is that the database makes it."""

    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, primary_key=True)
    tag: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    note = orm.mapped_column(sa.String(200))
    qty = orm.mapped_column(sa.Integer)
    price = orm.mapped_column(sa.Numeric(12, 2))
    weight = orm.mapped_column(sa.Double)
    placed = orm.mapped_column(mysql.DATETIME(fsp=6))
    paid = orm.mapped_column(sa.Boolean)
    payload = orm.mapped_column(sa.VARBINARY(64))


class Order(Row, Base):
    __tablename__ = "orders"


class Kept(Row, Base):
    __tablename__ = "kept"


def rows(table, tag):
    """(id, text) of the tag's rows, by a connection of its own."""
    query = sa.text(f"SELECT id, txt FROM {table}_text WHERE tag = :tag ORDER BY id")
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query, {"tag": tag})]


def single(session, model, table, first_id):
    order = model(tag="sqlalchemy one", note="it's one", qty=1)
    session.add(order)
    session.flush()
    function = session.scalar(sa.text("SELECT LAST_INSERT_ID()"))
    session.commit()
    check.same(f"{table}: one object", [(order.id, short("it's one", 1))], rows(table, "sqlalchemy one"))
    # After INSERT ... RETURNING the function tells the same as after any other INSERT.
    check.same(f"{table}: LAST_INSERT_ID() is its id", order.id, function)
    check.true(f"{table}: id {order.id} is not below {first_id}", order.id >= first_id)

    objects = [model(tag="sqlalchemy repeated", **dict(zip(COLUMNS, values))) for values in VALUES]
    for order in objects:
        session.add(order)
        session.flush()
    session.commit()
    expect = [(order.id, text) for order, text in zip(objects, TEXTS)]
    check.same(f"{table}: objects of varied types", expect, rows(table, "sqlalchemy repeated"))


def many(session, model, table):
    values = [{"tag": "sqlalchemy several", "note": "abc"[i], "qty": i + 1} for i in range(3)]
    first = session.execute(sa.insert(model.__table__).values(values)).lastrowid
    session.commit()
    expect = [(first + i, short("abc"[i], i + 1)) for i in range(3)]
    check.same(f"{table}: several rows in a statement", expect, rows(table, "sqlalchemy several"))

    objects = [model(tag="sqlalchemy batch", note=f"b'{i}", qty=i) for i in range(5)]
    session.add_all(objects)
    session.commit()
    expect = sorted((order.id, short(order.note, order.qty)) for order in objects)
    check.same(f"{table}: add_all", expect, rows(table, "sqlalchemy batch"))

    values = [{"tag": "sqlalchemy executemany", "note": None, "qty": i} for i in range(5)]
    session.execute(sa.insert(model), values)
    session.commit()
    got = [text for _, text in rows(table, "sqlalchemy executemany")]
    check.same(f"{table}: executemany", [short("NULL", i) for i in range(5)], got)


def transactions(session, model, table):
    tag = "sqlalchemy transaction"
    objects = [model(tag=tag, note="t", qty=i) for i in range(2)]
    session.add_all(objects)
    session.flush()
    check.same(f"{table}: nothing is seen before the commit", [], rows(table, tag))
    session.commit()
    check.same(f"{table}: committed", sorted((o.id, short("t", o.qty)) for o in objects), rows(table, tag))

    gone = model(tag="sqlalchemy rollback", note="r", qty=0)
    session.add(gone)
    session.flush()
    gone_id = gone.id
    session.rollback()
    check.same(f"{table}: rolled back", [], rows(table, "sqlalchemy rollback"))
    order = model(tag="sqlalchemy rollback", note="r", qty=1)
    session.add(order)
    session.commit()
    check.same(f"{table}: after the rollback", [(order.id, short("r", 1))], rows(table, "sqlalchemy rollback"))
    check.true(f"{table}: id {gone_id} is not given again", order.id > gone_id)


for model in (Order, Kept):
    table = model.__tablename__
    with orm.Session(engine) as session:
        single(session, model, table, TABLES[table])
        many(session, model, table)
        transactions(session, model, table)
check.done()
