# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Sensors of the machine: its versions, its Docker, its network card. They change nothing and need no root."""

from __future__ import annotations

import platform
import re
import typing as t
from pathlib import Path

from .._data.files import read_value
from .._docker.access import CDI_FOLDERS
from .._fabric.ports import functions
from .._spark import hotplug as _hotplug
from .._spark.machine import CONNECTX7, QUERY, find_functions
from .sensor import NotMeasured, Sensor, World

# Keys of /etc/dgx-release, without the serial number.
DGX_KEYS = ("DGX_NAME", "DGX_PLATFORM", "DGX_SWBUILD_VERSION", "DGX_OTA_VERSION")
PACKAGES = (
    *("dgx-spark-mlnx-hotplug", "docker-ce", "docker.io", "containerd.io", "nvidia-container-toolkit", "rdma-core"),
    *("perftest", "openssh-server", "network-manager", "netplan.io"),
)
MARKER = str(_hotplug.MARKER)
SLOT_STATE = str(_hotplug.STATE)

# Machine


def virtualisation(world: World) -> str:
    """Return the kind of virtual machine or container; systemd-detect-virt fails if it is none."""
    code, said, complaint = world.run(("systemd-detect-virt",))
    if not said.strip():
        raise NotMeasured(complaint.strip() or f"systemd-detect-virt ended with {code}")
    return said.strip()


def product(world: World) -> str:
    vendor, name = (world.read_text(f"/sys/class/dmi/id/{part}") for part in ("sys_vendor", "product_name"))
    return f"{vendor} {name}"


def firmware(world: World) -> str:
    version, date = (world.read_text(f"/sys/class/dmi/id/{part}") for part in ("bios_version", "bios_date"))
    return f"{version} of {date}"


def assignments(text: str) -> dict[str, str]:
    """Lines of NAME=value, as /etc/os-release has them; the last one of a name counts."""
    return {name: value.strip("\"'") for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)}


def dgx_release(world: World) -> list[str]:
    result = assignments(world.read_text("/etc/dgx-release"))
    return [f"{key} {result[key]}" for key in DGX_KEYS if key in result]


def os_release(world: World) -> str:
    return assignments(world.read_text("/etc/os-release"))["PRETTY_NAME"]


def kernel(world: World) -> str:
    return world.read_text("/proc/sys/kernel/osrelease")


def gpu(world: World) -> str:
    return world.output(*QUERY)


def driver(world: World) -> str:
    return world.read_text("/proc/driver/nvidia/version").splitlines()[0]


def memory(key: str) -> t.Callable[[World], int]:
    """Return a sensor of one line of /proc/meminfo, in bytes."""
    return lambda world: world.read_memory()[key]


def uptime(world: World) -> float:
    return round(float(world.read_text("/proc/uptime").split()[0]) / 3600, 1)


def packages(world: World) -> list[str]:
    """Return the installed packages that matter here; dpkg-query fails if one is missing, and prints the others."""
    code, said, complaint = world.run(("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES))
    if not said.strip():
        raise NotMeasured(" ".join(complaint.split()) or f"dpkg-query ended with {code}")
    return [line for line in said.splitlines() if len(line.split()) == 2]


# Docker


def docker_version(world: World) -> str:
    said = world.ask("/version")
    return f"{said['Version']}, API {said['ApiVersion']}"


def docker_store(world: World) -> str:
    said = world.ask("/info")
    kinds = [value for name, value in said.get("DriverStatus") or [] if name == "driver-type"]
    return " ".join([said["Driver"], *kinds])


def docker_groups(world: World) -> str:
    said = world.ask("/info")
    return f"version {said['CgroupVersion']}, {said['CgroupDriver']}"


def docker_runtimes(world: World) -> list[str]:
    return sorted(world.ask("/info")["Runtimes"])


def toolkit(world: World) -> str:
    return world.output("nvidia-ctk", "--version").splitlines()[0]


def cdi(world: World) -> list[str]:
    """Return the CDI files of the GPU. An empty list is a valid answer."""
    return [f"{folder}/{path.name}" for folder in CDI_FOLDERS for path in sorted(world.path(folder).glob("*"))]


# The network card


def hotplug_marker(world: World) -> str:
    return "armed" if _hotplug.look(world.root)["armed"] else "not armed"


def hotplug_state(world: World) -> str:
    return world.read_text(SLOT_STATE)


def cards(world: World) -> list[Path]:
    """Return the PCI functions of a ConnectX-7."""
    return find_functions(world.path("/sys/bus/pci/devices"), CONNECTX7)


def pci_connectx(world: World) -> list[str]:
    """Each function with the width and speed of its PCIe link, and what it could have."""

    def link(device: Path, which: str) -> str:
        width, speed = (read_value(device / f"{which}_link_{part}") for part in ("width", "speed"))
        return f"x{width} {speed}" if width and speed else "unknown"

    return [f"{card.name}: link {link(card, 'current')}, at best {link(card, 'max')}" for card in cards(world)]


def card_firmware(world: World) -> list[str]:
    result = sorted(world.path("/sys/class/infiniband").glob("*"))
    if not result:
        raise NotMeasured("there is no RDMA device")
    return sorted({read_value(device / "fw_ver") or "unknown" for device in result})


def interfaces(world: World) -> list[str]:
    """Return the ports' interfaces with link state, speed and RDMA device."""
    result = functions(world.path("/sys"))
    if not result:
        raise NotMeasured("there is no interface of a ConnectX card")
    lines = []
    for one in result:
        net = world.path(f"/sys/class/net/{one.interface}")
        port = world.path(f"/sys/class/infiniband/{one.rdma}/ports/1")
        rdma = f"{one.rdma} {read_value(port / 'state')} {read_value(port / 'rate')}" if one.rdma else "no RDMA device"
        link = {"1": "link", "0": "no link"}.get(read_value(net / "carrier") or "", "down")
        lines.append(
            f"{one.interface} {link}, {read_value(net / 'speed') or '?'} Mb/s, MTU {read_value(net / 'mtu')}, {rdma}"
        )
    return lines


def infiniband_nodes(world: World) -> list[str]:
    return sorted(path.name for path in world.path("/dev/infiniband").glob("*"))


def architecture(world: World) -> str:
    return platform.machine()


MACHINE = (
    Sensor("virtualisation", "Machine", "Simulated by", virtualisation, "systemd-detect-virt"),
    Sensor("product", "Machine", "Product", product, "/sys/class/dmi/id"),
    Sensor("firmware", "Machine", "Firmware", firmware, "/sys/class/dmi/id"),
    Sensor("dgx_release", "Machine", "DGX OS", dgx_release, "/etc/dgx-release"),
    Sensor("os_release", "Machine", "Distribution", os_release, "/etc/os-release"),
    Sensor("kernel", "Machine", "Kernel", kernel, "/proc/sys/kernel/osrelease"),
    Sensor("architecture", "Machine", "Processor", architecture, "uname"),
    Sensor("gpu", "Machine", "GPU and driver", gpu, "nvidia-smi"),
    Sensor("driver", "Machine", "Kernel's driver", driver, "/proc/driver/nvidia/version"),
    Sensor("memory_total", "Machine", "Memory", memory("MemTotal"), "/proc/meminfo", "bytes"),
    Sensor("memory_available", "Machine", "Memory available now", memory("MemAvailable"), "/proc/meminfo", "bytes"),
    Sensor("memory_free", "Machine", "Memory free now", memory("MemFree"), "/proc/meminfo", "bytes"),
    Sensor("uptime", "Machine", "Up for", uptime, "/proc/uptime", "hours"),
    Sensor("packages", "Machine", "Packages", packages, "dpkg-query"),
    Sensor("docker_version", "Docker", "Docker Engine", docker_version, "/version"),
    Sensor("docker_store", "Docker", "Image store", docker_store, "/info"),
    Sensor("docker_groups", "Docker", "Control groups", docker_groups, "/info"),
    Sensor("docker_runtimes", "Docker", "Runtimes", docker_runtimes, "/info"),
    Sensor("toolkit", "Docker", "Container toolkit", toolkit, "nvidia-ctk --version"),
    Sensor("cdi", "Docker", "CDI specifications", cdi, "/etc/cdi, /var/run/cdi"),
    Sensor("hotplug_marker", "Network card", "Switched off without a cable", hotplug_marker, MARKER),
    Sensor("hotplug_state", "Network card", "State of its slot", hotplug_state, SLOT_STATE),
    Sensor("pci_connectx", "Network card", "On the PCI bus", pci_connectx, "/sys/bus/pci/devices"),
    Sensor("card_firmware", "Network card", "Its firmware", card_firmware, "/sys/class/infiniband"),
    Sensor("interfaces", "Network card", "Its interfaces", interfaces, "/sys/class/net"),
    Sensor("infiniband_nodes", "Network card", "Devices for containers", infiniband_nodes, "/dev/infiniband"),
)
