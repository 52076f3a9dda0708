"""Django's contrib applications. `main.py install` makes their tables and some rows. `main.py use` adds rows and prints
TABLE COLUMN ID for each id that Django was told."""

import datetime
import os
import sys

import django
from django.conf import settings  # noqa: E402

CONTRIB = ("admin", "auth", "contenttypes", "flatpages", "messages", "redirects", "sessions", "sites")
NAMES = ("it's \"one\"", "back\\slash", "é ☃ 😀", "a\nb\tc\0d", "-- /* ; */")

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.mysql",
            **{key: os.environ[f"ROWSTAMP_{key}"] for key in ("HOST", "PORT", "USER", "PASSWORD")},
            "NAME": os.environ["ROWSTAMP_DATABASE"],
            "OPTIONS": {"charset": "utf8mb4"},
        }
    },
    INSTALLED_APPS=[f"django.contrib.{name}" for name in CONTRIB],
    # A user costs no time for a hash that nobody will attack.
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    SECRET_KEY="of no use",
    SITE_ID=1,
    USE_TZ=False,
)
django.setup()

from django.contrib.admin.models import CHANGE, LogEntry  # noqa: E402
from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402
from django.contrib.flatpages.models import FlatPage  # noqa: E402
from django.contrib.redirects.models import Redirect  # noqa: E402
from django.contrib.sessions.models import Session  # noqa: E402
from django.contrib.sites.models import Site  # noqa: E402
from django.core.management import call_command  # noqa: E402


def write(word):
    """A row or more for each table, for each of the names."""
    objects = []
    for number, name in enumerate(NAMES):
        user = User.objects.create_user(f"{word}{number}", f"{word}@example.com", "secret", first_name=name)
        group = Group.objects.create(name=f"{word} {name}")
        group.permissions.set(Permission.objects.all()[: number + 3])
        user.groups.add(group)
        user.user_permissions.add(Permission.objects.last())
        page = FlatPage.objects.create(url=f"/{word}/{number}/", title=name, content=name * 1000)
        page.sites.add(Site.objects.get_current())
        kind = ContentType.objects.get_for_model(FlatPage)
        entry = LogEntry.objects.create(
            user=user, content_type=kind, object_id=page.pk, object_repr=name, action_flag=CHANGE
        )
        redirect = Redirect.objects.create(site_id=1, old_path=f"/{word}/{number}", new_path=page.url)
        Session.objects.create(
            session_key=f"{word}{number}", session_data=name, expire_date=datetime.datetime(2037, 1, 1)
        )
        objects += [user, group, page, entry, redirect]
    return objects


if sys.argv[1] == "install":
    call_command("migrate", verbosity=0)
    write("first")
else:
    for row in write("second"):
        print(row._meta.db_table, row._meta.pk.column, row.pk)
