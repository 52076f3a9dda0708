"""Django's ORM on mysqlclient, models without migrations.

On MariaDB it appends RETURNING id to each INSERT, bulk_create's too; on MySQL it reads lastrowid, and bulk_create leaves
the objects without ids.
"""

from check import COLUMNS, DATABASE, HOST, PASSWORD, PORT, TABLES, TEXTS, USER, VALUES, Check, short

import django
from django.conf import settings

LOGIN = {
    "ENGINE": "django.db.backends.mysql",
    "HOST": HOST,
    "PORT": PORT,
    "USER": USER,
    "PASSWORD": PASSWORD,
    "NAME": DATABASE,
}
settings.configure(DATABASES={"default": LOGIN, "witness": LOGIN}, USE_TZ=False)
django.setup()

from django.db import connection, connections, models, transaction  # noqa: E402 - needs the settings

check = Check("Django")


class Row(models.Model):
    id = models.BigAutoField(primary_key=True)
    tag = models.CharField(max_length=64)
    note = models.CharField(max_length=200, null=True)
    qty = models.IntegerField(null=True)
    price = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    weight = models.FloatField(null=True)
    placed = models.DateTimeField(null=True)
    paid = models.BooleanField(null=True)
    payload = models.BinaryField(null=True)

    class Meta:
        abstract = True
        app_label = "drivers"


class Order(Row):
    class Meta(Row.Meta):
        managed = False
        db_table = "orders"


class Kept(Row):
    class Meta(Row.Meta):
        managed = False
        db_table = "kept"


def rows(table, tag):
    """(id, text) of the tag's rows, by another connection."""
    with connections["witness"].cursor() as cursor:
        cursor.execute(f"SELECT id, txt FROM {table}_text WHERE tag = %s ORDER BY id", [tag])
        return [tuple(row) for row in cursor.fetchall()]


def single(model, table, first_id):
    order = model.objects.create(tag="django one", note="it's one", qty=1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT LAST_INSERT_ID()")
        function = cursor.fetchone()[0]
    check.same(f"{table}: one object", [(order.pk, short("it's one", 1))], rows(table, "django one"))
    check.same(f"{table}: LAST_INSERT_ID() is its pk", order.pk, function)
    check.true(f"{table}: id {order.pk} is not below {first_id}", order.pk >= first_id)

    objects = [model(tag="django repeated", **dict(zip(COLUMNS, values))) for values in VALUES]
    for order in objects:
        order.save()
    expect = [(order.pk, text) for order, text in zip(objects, TEXTS)]
    check.same(f"{table}: objects of varied types", expect, rows(table, "django repeated"))


def many(model, table):
    objects = model.objects.bulk_create([model(tag="django batch", note=f"b'{i}", qty=i) for i in range(5)])
    got = rows(table, "django batch")
    check.same(f"{table}: rows of bulk_create", [short(f"b'{i}", i) for i in range(5)], [text for _, text in got])
    if connection.features.can_return_rows_from_bulk_insert:
        check.same(f"{table}: pks of bulk_create", [pk for pk, _ in got], [order.pk for order in objects])

    insert = f"INSERT INTO {table} (tag, note, qty) VALUES (%s, %s, %s)"
    with connection.cursor() as cursor:
        cursor.executemany(insert, [("django several", "abc"[i], i + 1) for i in range(3)])
        first = cursor.lastrowid
    expect = [(first + i, short("abc"[i], i + 1)) for i in range(3)]
    check.same(f"{table}: several rows in a statement", expect, rows(table, "django several"))


def transactions(model, table):
    tag = "django transaction"
    with transaction.atomic():
        objects = [model.objects.create(tag=tag, note="t", qty=i) for i in range(2)]
        check.same(f"{table}: nothing is seen before the commit", [], rows(table, tag))
    check.same(f"{table}: committed", [(order.pk, short("t", order.qty)) for order in objects], rows(table, tag))

    with transaction.atomic():
        gone = model.objects.create(tag="django rollback", note="r", qty=0)
        transaction.set_rollback(True)
    check.same(f"{table}: rolled back", [], rows(table, "django rollback"))
    order = model.objects.create(tag="django rollback", note="r", qty=1)
    check.same(f"{table}: after the rollback", [(order.pk, short("r", 1))], rows(table, "django rollback"))
    check.true(f"{table}: id {gone.pk} is not given again", order.pk > gone.pk)


for model in (Order, Kept):
    table = model._meta.db_table
    single(model, table, TABLES[table])
    many(model, table)
    transactions(model, table)
check.done()
