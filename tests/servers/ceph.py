"""S3 by Ceph: a one-node cluster of plain processes, the real thing for benchmarks and stress.

On Debian ``apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common`` brings
it. Version 16 has quirks worth testing against: it completes a multipart upload whatever
``If-None-Match`` says, knows no ETag in quotes in ``If-Match``, and verifies the payload's SHA-256
and Content-MD5 but no x-amz-checksum.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.servers.process import free_port, running

KEY, SECRET = "testkey", "testsecret"
PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw")

# One copy of everything, quick elections, small pools: a cluster for one process and its tests.
CONFIG = """\
[global]
fsid = {fsid}
mon host = {monitor}
public network = 127.0.0.0/8
keyring = {folder}/keyring
run dir = {folder}/run
pid file = {folder}/run/$name.pid
admin socket = {folder}/run/$name.asok
log file = {folder}/log/$name.log
auth allow insecure global id reclaim = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 0
paxos propose interval = 0.05
paxos min wait = 0.01
mon data = {folder}/mon
osd data = {folder}/osd
osd objectstore = {objectstore}
bluestore block size = 21474836480
memstore device bytes = 8589934592
osd memory target = 1073741824
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw rados pool pg num min = 4
rgw gc obj min wait = 5
rgw gc processor period = 5
rgw dynamic resharding = false
"""


def installed() -> bool:
    return all(shutil.which(program) for program in PROGRAMS) and os.geteuid() == 0


@contextlib.contextmanager
def ceph(objectstore: str = "memstore") -> Iterator[str]:
    """A gateway's endpoint URL while the block runs. ``objectstore``: "memstore" or "bluestore"."""
    with tempfile.TemporaryDirectory(prefix="ceph-") as name, contextlib.ExitStack() as stack:
        cluster = Cluster(Path(name), objectstore)
        cluster.prepare()
        stack.enter_context(running(cluster.daemon("ceph-mon", "a"), port=cluster.monitor_port))
        stack.enter_context(cluster.storage_daemon())
        cluster.add_user()
        gateway = cluster.daemon("radosgw", "rgw")
        stack.enter_context(running(gateway, port=cluster.port))
        yield f"http://127.0.0.1:{cluster.port}"


class Cluster:
    def __init__(self, folder: Path, objectstore: str) -> None:
        self.folder = folder
        self.port, self.monitor_port = free_port(), free_port()
        self.monitor = f"[v2:127.0.0.1:{self.monitor_port},v1:127.0.0.1:{free_port()}]"
        self.fsid = str(uuid.uuid4())
        self.config = CONFIG.format(
            fsid=self.fsid,
            monitor=self.monitor,
            folder=folder,
            objectstore=objectstore,
            port=self.port,
        )

    def run(self, *argv: str) -> None:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-2000:]}")

    def daemon(self, program: str, name: str, *extra: str) -> list[str]:
        who = ["-n", f"client.{name}"] if program == "radosgw" else ["-i", name]
        config = ["-c", f"{self.folder}/ceph.conf", "--setuser", "root", "--setgroup", "root"]
        return [program, *config, *who, *(extra or ("-f",))]

    def prepare(self) -> None:
        for name in ("mon", "osd", "rgw", "run", "log"):
            (self.folder / name).mkdir()
        (self.folder / "ceph.conf").write_text(self.config)
        keyring, monitors = f"{self.folder}/keyring", f"{self.folder}/monmap"
        Path(keyring).touch()
        for name in ("mon.", "client.admin", "osd.0", "client.rgw"):
            allowed = ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
            self.run("ceph-authtool", keyring, "--gen-key", "-n", name, *allowed)
        create = ("--create", "--addv", "a", self.monitor, "--fsid", self.fsid)
        self.run("monmaptool", *create, monitors)
        self.run(
            *self.daemon("ceph-mon", "a", "--mkfs", "--monmap", monitors, "--keyring", keyring)
        )

    @contextlib.contextmanager
    def storage_daemon(self) -> Iterator[None]:
        osd = str(uuid.uuid4())
        self.run("ceph", "-c", f"{self.folder}/ceph.conf", "osd", "new", osd)
        self.run(*self.daemon("ceph-osd", "0", "--mkfs", "--osd-uuid", osd))
        # it listens on ports of its own choice: the gateway waits for it, so nothing else needs to
        with running(self.daemon("ceph-osd", "0"), port=self.monitor_port):
            yield

    def add_user(self) -> None:
        admin = ("radosgw-admin", "-c", f"{self.folder}/ceph.conf", "-n", "client.rgw")
        keys = (f"--access-key={KEY}", f"--secret-key={SECRET}")
        self.run(*admin, "user", "create", "--uid=test", "--display-name=test", *keys)
        # the region that clients name when they make buckets
        self.run(*admin, "zonegroup", "modify", "--rgw-zonegroup=default", "--api-name=us-east-1")


if __name__ == "__main__":
    with ceph(*sys.argv[1:]) as endpoint:
        print(f"{endpoint} key {KEY}, secret {SECRET}; interrupt to stop", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
