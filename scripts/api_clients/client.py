"""A UDP test by the generated Python client: client.py URL HOST"""

import sys
import time

from weir import Client
from weir.api.tests import get_test, get_test_record, start_test
from weir.models import Connection, Plan, State, TestRequest, Transport

TIMEOUT_SECONDS = 60

url, host = sys.argv[1:]
client = Client(base_url=url, raise_on_unexpected_status=True)
connection = Connection(transport=Transport.UDP, rate="1M", duration="1s")
plan = Plan(schema="weir.plan/1", connection=[connection])
test = start_test.sync(client=client, body=TestRequest(host=host, plan=plan))
until = time.monotonic() + TIMEOUT_SECONDS
while test.state not in (State.ENDED, State.INTERRUPTED, State.FAILED):
    if time.monotonic() > until:
        sys.exit(f"test {test.id} is still {test.state} after {TIMEOUT_SECONDS} s")
    time.sleep(0.2)
    test = get_test.sync(test.id, client=client)
if test.state != State.ENDED:
    sys.exit(f"test {test.id}: {test.state}: {test.error}")
record = get_test_record.sync(test.id, client=client)
received = record.flows[0].receiver.packets
if received == 0:
    sys.exit(f"run {record.id}: no packet arrived")
print(f"Python client: run {record.id}, {received} packets received")
