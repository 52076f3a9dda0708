"""Django's own tests of its database backends and of what stands close to them, from its source package of PyPI, by mysqlclient."""

import os

import get
import results
from machine import run as run_command

SERVERS = ("mariadb", "mysql")
SCHEMAS = ("test_django", "test_django_other")
SECONDS = 2400
TESTS = """aggregation aggregation_regress annotations async backends basic bulk_create cache composite_pk constraints custom_columns
    custom_lookups custom_managers custom_methods custom_pk datatypes dates datetimes db_functions db_typecasts db_utils dbshell defer
    defer_regress delete delete_regress distinct_on_fields empty expressions expressions_case expressions_window extra_regress
    field_defaults field_subclassing filtered_relation fixtures fixtures_regress force_insert_update foreign_object from_db_value
    generic_relations get_earliest_or_latest get_object_or_404 get_or_create indexes inspectdb introspection known_related_objects
    lookup m2m_regress m2m_signals m2m_through many_to_many many_to_one max_lengths migrations model_fields model_inheritance
    model_inheritance_regress multiple_database null_fk null_queries one_to_one or_lookups order_with_respect_to ordering
    pagination prefetch_related proxy_models queries raw_query reserved_names reverse_lookup save_delete_hooks schema select_for_update
    select_related serializers sessions_tests string_lookup test_utils timezones transaction_hooks transactions unmanaged_models
    update update_only_fields xor_lookups""".split()
SHORT_TESTS = "basic bulk_create get_or_create".split()
SETTINGS = """
_common = {{"ENGINE": "django.db.backends.mysql", "HOST": {host!r}, "PORT": {port}, "USER": {user!r}, "PASSWORD": {password!r},
           "OPTIONS": {{"charset": "utf8mb4"}}}}
DATABASES = {{
    "default": {{**_common, "NAME": "django", "TEST": {{"CHARSET": "utf8mb4", "NAME": "test_django"}}}},
    "other": {{**_common, "NAME": "django_other", "TEST": {{"CHARSET": "utf8mb4", "NAME": "test_django_other"}}}},
}}
SECRET_KEY = "suites"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
"""


def install():
    needs = ("libmariadb-dev", "pkg-config", "gcc", "libc6-dev", "python3-dev")
    return get.venv("django", "mysqlclient", "asgiref", "sqlparse", debian_packages=needs), get.sdist("Django<6")


def set_up(target):
    target.sql("CREATE DATABASE django; CREATE DATABASE django_other")


def run(place, target, only):
    python, source = place
    source = get.copy(source, target.folder)
    (target.folder / "suites_settings.py").write_text(
        SETTINGS.format(host=target.host, port=target.port, user=target.user, password=target.password)
    )
    tests = [test for test in TESTS if (source / "tests" / test).exists()]
    if target.short:
        tests = SHORT_TESTS
    if os.environ.get("ROWSTAMP_DJANGO_TESTS"):
        tests = os.environ["ROWSTAMP_DJANGO_TESTS"].split()
    if only:
        tests = sorted({name.split(".")[0] for name in only} & set(tests))
    run_command([python, "runtests.py", "--settings=suites_settings", "--parallel=1", "--verbosity=2", "--noinput", *tests],
                target.log, SECONDS, cwd=source / "tests",
                env={"PYTHONPATH": f"{target.folder}:{source}"})  # fmt: skip
    return results.unittest(target.log)
