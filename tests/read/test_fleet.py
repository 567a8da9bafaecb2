"""Hosts that share a store's permitted rate: the short form of ``make long ONLY=fleet``."""

from __future__ import annotations

import pytest

pytest.importorskip("greenlet")

from tests.fleet.__main__ import PAGES, Run, fleet
from tests.fleet.store import Bucket


@pytest.fixture(scope="module")
def bucket() -> Bucket:
    return Bucket(PAGES)


def faults(run: Run) -> list[str]:
    return [host.fault for host in run.hosts if host.fault]


def test_hosts_that_are_few_meet_no_refusal(bucket: Bucket) -> None:
    run = fleet(3, seconds=1.0, bucket=bucket)
    assert not faults(run)
    assert [host.opening for host in run.hosts] == [3] * 3
    assert run.refused() == 0
    # the manifest, a page, a table and a block, each a round trip
    assert all(host.first - host.begun < 1 for host in run.hosts)


def test_a_fleet_takes_what_the_store_permits_and_storms_not(bucket: Bucket) -> None:
    """24 hosts at 32 requests a second are as 4,096 at 5,500."""
    run = fleet(24, seconds=20.0, reads=32, bucket=bucket)
    assert not faults(run)
    assert run.reached(10) > 0.9
    assert run.refused(10) < 0.5


def test_without_a_pace_it_storms(bucket: Bucket) -> None:
    """So the test before this one tells something."""
    run = fleet(24, seconds=20.0, reads=32, bucket=bucket, paced=False)
    assert run.refused(10) > 0.5 or faults(run)


def test_hosts_that_die_cost_no_more_than_their_opening(bucket: Bucket) -> None:
    run = fleet(4, seconds=7.0, deaths=1.0, reads=100, bucket=bucket)
    assert not faults(run)
    assert run.service.asked["manifest"] > len(run.hosts)  # some came back before the end
    assert run.service.asked["page"] <= run.service.asked["manifest"]
    assert all(len(host.seen) > 10 for host in run.hosts)
