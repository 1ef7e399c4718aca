# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the twin up and take it down."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import pathlib
import shlex
import shutil
import time
import typing as t

from tests.twin import cables, engine, groups, images, real_model
from tests.twin.control import Internet, Spark
from tests.twin.keys import CA_CERTIFICATE, KNOWN_HOSTS, SERVER_CERTIFICATE, SSH_KEY, make_keys
from tests.twin.models import write_models
from tests.twin.names import (
    BASE_SYSTEM,
    CACHE,
    CHECKOUT,
    FOREIGN_TAG,
    INTERNET,
    INTERNET_ADDRESS,
    INTERNET_IMAGE,
    KEPT_PORT,
    KEPT_VOLUME,
    MAX_SPARKS,
    NEIGHBOUR,
    NETWORK,
    OTHER_RELEASES,
    PACKAGE,
    PASSWORD,
    PREFIX,
    REGISTRY_PORT,
    REGISTRY_VOLUME,
    RELEASE,
    RELEASE_REPOSITORY,
    SIDE_IMAGES,
    STATE,
    STORES,
    SUBNET,
    SWITCH,
    SYSTEMS,
    USER,
    VLLM_REPOSITORY,
    VLLM_TAG,
    TwinError,
    base_image,
    spark_address,
    spark_image,
    spark_name,
)
from tests.twin.registry import Registry
from tests.twin.spark.fabric import MTU
from tests.twin.trtllm.build import build as build_trtllm
from tests.twin.vllm import build as vllm_build
from tests.twin.vocabularies import VOCABULARIES, ensure_vocabularies
from tests.twin.wheels import BuildError

HUB = CACHE / "hub"
# A process that needs both acquires the twin's own lock first.
OWN_LOCK, BUILD_LOCK, VLLM_LOCK = STATE / "lock", CACHE / "build.lock", CACHE / "vllm.lock"
INVENTORY = STATE / "inventory.yml"
SPECIFICATION = f"{PREFIX}.specification"

# Programs that manage a Spark's network: see spark/network.
NETWORKS = ("networkmanager", "networkd", "foreign", "wifi", "link-local", "saved")

# systemd and a Docker Engine need these. Access beyond the container's namespaces is removed again.
# A sandbox without CAP_SYS_RESOURCE refuses `--privileged`.
SPARK_OPTIONS = (
    *("--cap-add", "ALL"),
    *(part for name in ("RESOURCE", "MODULE", "TIME", "RAWIO") for part in ("--cap-drop", f"SYS_{name}")),
    *("--security-opt", "seccomp=unconfined"),
    *("--security-opt", "apparmor=unconfined"),
    *("--security-opt", "systempaths=unconfined"),
    *("--device-cgroup-rule", "a *:* rwm"),
    *("--tmpfs", "/run"),
    *("--tmpfs", "/run/lock"),
    *("--shm-size", "2g"),
)


@dataclasses.dataclass(frozen=True)
class Delivery:
    """The delivered state of a Spark: operating system, image store, and manager of its network."""

    system: str = SYSTEMS[0]
    store: str = STORES[0]
    network: str = NETWORKS[0]


@contextlib.contextmanager
def alone(lock: pathlib.Path) -> t.Iterator[None]:
    """Hold a lock, so that two runs do not build or start the same things."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_changed(path: t.Any, text: str) -> None:
    """Write a file only if its content changes."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def ensure_network() -> None:
    """Create the management network of the Sparks, their internet and this machine."""
    if engine.inspect("network", NETWORK) is None:
        engine.docker("network", "create", "--subnet", SUBNET, NETWORK)


def ensure_container(
    name: str, image: str, options: t.Sequence[str], volumes: t.Sequence[str], command: t.Sequence[str] = ()
) -> None:
    """Run this container. Replace it and its volumes if it has other options."""
    specification = hashlib.sha256(json.dumps([engine.image_id(image), options, command]).encode()).hexdigest()
    container = engine.inspect("container", name)
    if container and container["Config"]["Labels"].get(SPECIFICATION) != specification:
        remove(name, volumes)
        container = None
    if container is None:
        labelled = ("--label", f"{SPECIFICATION}={specification}")
        engine.docker("run", "--detach", "--name", name, *labelled, *options, image, *command)
    elif not container["State"]["Running"]:
        engine.docker("start", name)


def end(name: str) -> None:
    """Kill and remove a container. Docker waits 10 s for its end; a Spark with a busy engine can need more."""
    for _attempt in range(2):
        if engine.attempt("rm", "--force", name).returncode == 0:
            return
    engine.docker("rm", "--force", name)


def remove(name: str, volumes: t.Sequence[str] = ()) -> None:
    """Remove a container and its volumes, if they exist."""
    if engine.inspect("container", name):
        end(name)
    for volume in volumes:
        if engine.inspect("volume", volume):
            engine.docker("volume", "rm", volume)


def ensure_models() -> None:
    """Write the Hub's files, and write them again if their source has changed."""
    stamp = CACHE / "hub.inputs"
    inputs = images.digest_of(PACKAGE / "models.py")
    if stamp.exists() and stamp.read_text() == inputs:
        return
    stamp.unlink(missing_ok=True)
    # Keep the directory itself, because a running container may mount it.
    HUB.mkdir(parents=True, exist_ok=True)
    for child in HUB.iterdir():
        shutil.rmtree(child) if child.is_dir() else child.unlink()
    write_models(HUB)
    stamp.write_text(inputs)


def ensure_internet() -> None:
    """Start the registry, the Hub and the file host."""
    options = (
        *("--init", "--network", NETWORK, "--ip", INTERNET_ADDRESS, "--hostname", "internet"),
        *("--env", f"ADDRESS={INTERNET_ADDRESS}"),
        *("--volume", f"{HUB}:/srv/hub:ro", "--volume", f"{VOCABULARIES}:/srv/vocabularies:ro"),
        *("--volume", f"{SERVER_CERTIFICATE.parent}:/srv/tls:ro", "--volume", f"{REGISTRY_VOLUME}:/srv/registry"),
        *("--volume", f"{KEPT_VOLUME}:/srv/kept"),
        # Without TLS, Docker pushes only to a registry on the loopback address.
        *(part for port in (REGISTRY_PORT, KEPT_PORT) for part in ("--publish", f"127.0.0.1::{port}")),
    )
    ensure_container(INTERNET, INTERNET_IMAGE, options, ())
    internet, deadline = Internet(), time.monotonic() + 30
    while True:
        try:
            internet.faults()
            return
        except TwinError:
            if time.monotonic() > deadline:
                logs = engine.attempt("logs", "--tail", "20", INTERNET)
                raise TwinError(f"The twin's internet does not start: {engine.last_line(logs.stderr)}") from None
            time.sleep(0.1)


def registry(port: int = REGISTRY_PORT) -> str:
    """Return the address of a registry of the twin on this machine's loopback interface."""
    return engine.docker("port", INTERNET, f"{port}/tcp").splitlines()[0]


def release_tag(release: str) -> str:
    """Return the tag of the stand-in of this TensorRT-LLM release on this machine."""
    return f"{PREFIX}/trtllm:{release}-{CHECKOUT}"


def build_release(release: str) -> None:
    """Build the stand-in of this TensorRT-LLM release if it is missing."""
    tag = release_tag(release)
    if engine.image_id(tag) is None:
        print(f"Building {tag} ...", flush=True)
    context = CACHE / "trtllm" / release
    context.mkdir(parents=True, exist_ok=True)
    try:
        build_trtllm(context, CA_CERTIFICATE, tag, release, f"{images.OWNER}={CACHE}")
    except BuildError as error:
        raise TwinError(str(error)) from None


def push(tag: str, repository: str, remote_tag: str, port: int = REGISTRY_PORT) -> None:
    """Push an image of this machine to a registry, if the image exists."""
    address, image = registry(port), engine.image_id(tag)
    if image is None or image in Registry(address, repository).ids(remote_tag):
        return
    print(f"Pushing {tag} ...", flush=True)
    remote = f"{address}/{repository}:{remote_tag}"
    engine.docker("tag", tag, remote)
    engine.docker("push", "--quiet", remote)
    engine.docker("rmi", remote)


def build_vllm() -> None:
    """Build the image of the real vLLM if it is missing, and offer its model in the Hub."""
    try:
        real_model.offer(vllm_build.checkpoint(vllm_build.build()), HUB)
    except BuildError as error:
        raise TwinError(str(error)) from None


def build_internet() -> None:
    """Build the image of the internet and its content."""
    images.build_internet()
    ensure_vocabularies()
    ensure_models()
    build_release(RELEASE)
    for name in SIDE_IMAGES:
        images.build_side_image(name)


def build_all(system: str, vllm: bool) -> None:
    """Build everything that the twins of this machine share. Only one twin builds at a time."""
    with alone(BUILD_LOCK), concurrent.futures.ThreadPoolExecutor() as pool:
        make_keys()
        list(pool.map(images.ensure_base, {BASE_SYSTEM, system}))
        spark = pool.submit(images.build_spark, system)
        build_internet()
        spark.result()
    # It takes minutes, in which other twins build what they need.
    if vllm:
        with alone(VLLM_LOCK):
            build_vllm()


def remove_outdated() -> None:
    """Remove untagged images and images of removed checkouts, unless another twin uses them."""
    with alone(BUILD_LOCK):
        # Docker rejects a second prune at the same time, such as that of another clone.
        engine.attempt("image", "prune", "--force", "--filter", f"label={images.INPUTS}")
        owned = ("--filter", "dangling=false", "--filter", f"label={images.OWNER}")
        for tag in engine.docker("image", "ls", *owned, "--format", "{{.Repository}}:{{.Tag}}").split():
            if not pathlib.Path(engine.image_label(tag, images.OWNER) or CACHE).exists():
                engine.attempt("rmi", tag)


def fill_registry(vllm: bool) -> None:
    """Push the images to the registry: the release, tags of other releases, and the images beside the server.

    vLLM's image is pushed on request, to the registry that is kept.
    """
    push(release_tag(RELEASE), RELEASE_REPOSITORY, RELEASE)
    place = Registry(registry())
    for tag, release in OTHER_RELEASES.items():
        place.add_release(RELEASE, tag, release)
    place.add_foreign(RELEASE, FOREIGN_TAG)
    place.offer_both(RELEASE, FOREIGN_TAG)
    for name in SIDE_IMAGES:
        repository, _, tag = name.partition(":")
        push(images.side_tag(name), repository, tag)
    if vllm:
        push(vllm_build.TAG, VLLM_REPOSITORY, VLLM_TAG, KEPT_PORT)


def volumes(number: int) -> dict[str, str]:
    """Return the volumes of a Spark's images and containers with their mount points."""
    return {f"{spark_name(number)}-{part}": f"/var/lib/{part}" for part in ("docker", "containerd")}


def ensure_spark(number: int, delivery: Delivery) -> None:
    """Start a Spark. All Sparks share the machine's clock."""
    options = (
        *SPARK_OPTIONS,
        *("--network", NETWORK, "--ip", spark_address(number), "--hostname", f"spark-{number}"),
        # Containers in the Spark cannot use Docker's resolver on the Spark's loopback address.
        *("--dns", INTERNET_ADDRESS, "--env", f"TWIN_DNS={INTERNET_ADDRESS}"),
        *("--env", f"TWIN_NETWORK={delivery.network}", "--env", f"TWIN_NUMBER={number}"),
        *("--env", f"TWIN_STORE={delivery.store}"),
        *(part for volume, place in volumes(number).items() for part in ("--volume", f"{volume}:{place}")),
        # A Spark with an older system also has older control groups.
        *(groups.options(spark_name(number)) if delivery.system == SYSTEMS[0] else groups.PRIVATE),
    )
    ensure_container(spark_name(number), spark_image(delivery.system), options, tuple(volumes(number)))


def remove_spark(number: int) -> None:
    """Remove a Spark with everything on it."""
    # Without this, persistent connections would hang instead of fail.
    engine.attempt("exec", spark_name(number), "pkill", "sshd")
    remove(spark_name(number), tuple(volumes(number)))
    groups.remove(spark_name(number))


def renew_switch(wanted: bool, system: str) -> None:
    """Start or remove the switch. The image of a Spark has its programs."""
    if not wanted:
        remove(SWITCH)
        return
    bridge = f"ip link add {cables.BRIDGE} mtu {MTU} type bridge forward_delay 0 stp_state 0 mcast_snooping 0"
    script = f"{bridge} && ip link set {cables.BRIDGE} up && exec sleep infinity"
    silent = ("--sysctl", "net.ipv6.conf.all.disable_ipv6=1", "--sysctl", "net.ipv6.conf.default.disable_ipv6=1")
    options = ("--init", "--network", "none", "--cap-add", "NET_ADMIN", *silent, "--entrypoint", "/bin/sh")
    ensure_container(SWITCH, spark_image(system), options, (), ("-c", script))


def write_known_hosts(sparks: int) -> None:
    """Record the Sparks' host keys, read through Docker."""
    lines = []
    for number in range(1, sparks + 1):
        kind, key = Spark(number).read_file("/etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
        lines.append(f"{spark_address(number)} {kind} {key}\n")
    write_changed(KNOWN_HOSTS, "".join(lines))


def write_inventory(sparks: int) -> None:
    """Write an inventory like a user's, for hosts with SSH access."""
    ssh = ["-o", f'UserKnownHostsFile="{KNOWN_HOSTS}"', "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"]
    hosts = {f"spark-{number}": {"ansible_host": spark_address(number)} for number in range(1, sparks + 1)}
    variables = {
        "ansible_user": USER,
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_become_password": PASSWORD,
        "ansible_ssh_private_key_file": str(SSH_KEY),
        "ansible_ssh_common_args": shlex.join(ssh),
        # The bandwidth of a simulated wire depends on the load of the machine, so it is not checked.
        "spark_network_bandwidth_minimum_gbps": 0,
    }
    # JSON is YAML, too.
    write_changed(INVENTORY, json.dumps({"sparks": {"hosts": hosts, "vars": variables}}, indent=2) + "\n")


def renew_spark(number: int, wanted: t.Sequence[Delivery], fresh: bool) -> None:
    """Start this Spark, new if requested, or remove it if it is not wanted."""
    if fresh or number > len(wanted):
        remove_spark(number)
    if number <= len(wanted):
        ensure_spark(number, wanted[number - 1])


def deliveries(sparks: int, system: str, stores: t.Sequence[str], network: str) -> list[Delivery]:
    """Return the delivered state of each Spark. By default, the image store is that of a new Spark."""
    if not 1 <= sparks <= MAX_SPARKS:
        raise TwinError(f"The twin has 1 to {MAX_SPARKS} Sparks, not {sparks}.")
    possible = {"network": NETWORKS, "system": SYSTEMS, "image store": STORES if system == SYSTEMS[0] else STORES[1:]}
    for what, wanted in (("network", [network]), ("system", [system]), ("image store", stores)):
        for one in wanted:
            if one not in possible[what]:
                raise TwinError(f"The twin's {what} can be {', '.join(possible[what])}, not {one}.")
    if len(stores) > 1 and len(stores) != sparks:
        raise TwinError(f"The twin has {sparks} Sparks, and {len(stores)} image stores are named.")
    each = [*(stores or possible["image store"][:1])] * sparks
    return [Delivery(system, store, network) for store in each[:sparks]]


def up(
    sparks: int = 1,
    fresh: bool = False,
    network: str = NETWORKS[0],
    system: str = SYSTEMS[0],
    stores: t.Sequence[str] = (),
    hotplug: bool = False,
    wiring: str = "",
    vllm: bool = False,
) -> None:
    """Have the twin run with this many Sparks, building what is missing or outdated; fresh ones are as delivered.

    Two Sparks have a cable, more Sparks a switch. Their NICs stay when the cable is unplugged, unless hot-plug is
    requested. One Spark has no cable, and so no NIC. Their network is managed as on DGX OS or as requested. Their image
    stores are the system's default, one kind for all, or one for each. The real vLLM and its model are offered if
    requested.
    """
    wanted = deliveries(sparks, system, stores, network)
    cable = cables.delivered(sparks, wiring)
    with alone(OWN_LOCK):
        engine.cgroup_version()
        groups.announce()
        build_all(system, vllm)
        ensure_network()
        ensure_internet()
        if fresh:
            Internet().clear_faults()
            Internet().reset_counters()
        cables.record(cable)
        renew_switch(bool(cable and cable.wiring == cables.ON_SWITCH), system)
        numbers = range(1, MAX_SPARKS + 1)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            # All Sparks at the same time; list() raises their errors.
            list(pool.map(lambda number: renew_spark(number, wanted, fresh), numbers))
        cables.connect()
        fill_registry(vllm)
        for number in range(1, sparks + 1):
            Spark(number).wait()
            cables.arm(number, hotplug or sparks == 1)
        write_known_hosts(sparks)
        write_inventory(sparks)
        remove_outdated()


def down(with_images: bool = False) -> None:
    """Remove containers, network and volumes, and the images when asked to."""
    with alone(OWN_LOCK):
        engine.cgroup_version()
        for number in range(1, MAX_SPARKS + 1):
            remove_spark(number)
        remove(NEIGHBOUR)
        remove(SWITCH)
        remove(INTERNET, (REGISTRY_VOLUME,))
        if engine.inspect("network", NETWORK):
            engine.docker("network", "rm", NETWORK)
        INVENTORY.unlink(missing_ok=True)
        KNOWN_HOSTS.unlink(missing_ok=True)
        cables.record(None)
        if with_images:
            side_tags = map(images.side_tag, SIDE_IMAGES)
            own = (image(system) for image in (spark_image, base_image) for system in SYSTEMS)
            for tag in (release_tag(RELEASE), *side_tags, vllm_build.TAG, INTERNET_IMAGE, *own):
                if engine.image_id(tag):
                    engine.docker("rmi", "--force", tag)
            # Docker keeps it while another twin uses it.
            engine.attempt("volume", "rm", KEPT_VOLUME)


def status() -> list[str]:
    """Return the state of the twin, one line for each part."""
    engine.cgroup_version()
    lines = []
    for name in (INTERNET, *(spark_name(number) for number in range(1, MAX_SPARKS + 1))):
        container = engine.inspect("container", name)
        if container:
            address = container["NetworkSettings"]["Networks"].get(NETWORK, {}).get("IPAddress") or "no address"
            lines.append(f"{name}: {container['State']['Status']}, {address}")
    return lines
