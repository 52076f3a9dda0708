"""What the campaigns of this folder have in common: their checks, statements at the console, and what an error says."""

import contextlib
import http.client
import random
import signal
import sys
import time

import pymysql
import redis

from fleet import rows

# A statement that is sent again may find that it was done.
IS_DONE = ("there is no user", "has no token", "has no TAKE right")


class Checks:
    def __init__(self, args):
        self.args, self.random = args, random.Random(args.seed)
        self.passed = self.failed = 0
        self.proxies, self.waits = [], []

    def that(self, what, wrong):
        """A check: `wrong` is a list of what is wrong."""
        self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)
        print(f"{'FAIL' if wrong else 'PASS'} {what}", *wrong[:20], sep="\n    ", flush=True)

    def typed(self, statement):
        """At the console of any proxy, again until it is OK: the rows, and when it was."""
        began, again = time.monotonic(), 0
        while True:
            try:
                with contextlib.closing(self.random.choice(self.proxies).console()) as console:
                    found = rows(console, statement)
                break
            except pymysql.MySQLError as error:
                if again and any(text in str(error) for text in IS_DONE):
                    found = ()
                    break
                again += 1
                if self.args.verbose:
                    print(f"    {' '.join(statement.split()[:2])}: {error}", flush=True)
                if time.monotonic() - began > 60:
                    raise
                time.sleep(0.05)
        now = time.monotonic()
        self.waits.append(now - began)
        return found, now


def to_the_end(campaign_of, parser):
    """Runs a campaign, and ends this process as its checks say."""
    parser.add_argument("--verbose", action="store_true")
    # The servers end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    campaign = campaign_of(parser.parse_args())
    try:
        campaign.run()
    except Exception as error:  # noqa: BLE001 - the rest cannot run
        campaign.that(f"the campaign: {type(error).__name__}", [str(error)])
        if campaign.args.verbose:
            raise
    for proxy in campaign.proxies:
        proxy.end()
    print(f"{campaign.passed} passed, {campaign.failed} failed, 0 skipped", flush=True)
    sys.exit(campaign.failed > 0)


# Of PyMySQL, where the server has gone or goes.
LOST = {0, 2003, 2006, 2013, 1053}


def code_of(error):
    """Of an answer that is an error. None: the connection has gone, or never was."""
    if isinstance(error, redis.AuthenticationError):
        return "NOAUTH"
    if isinstance(error, redis.exceptions.NoPermissionError):
        return "NOPERM"
    if isinstance(error, redis.exceptions.TryAgainError):
        return "TRYAGAIN"
    if isinstance(error, redis.exceptions.ResponseError):
        return str(error)
    if isinstance(error, pymysql.MySQLError):
        code = error.args[0] if error.args else 0
        return None if code in LOST else str(code)
    if isinstance(error, (OSError, redis.ConnectionError, redis.TimeoutError, http.client.HTTPException)):
        return None
    raise error
