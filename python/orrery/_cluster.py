"""The cluster as a policy knows it."""

from __future__ import annotations

import operator
from typing import List

from orrery import _core
from orrery.values import PartKind


class Cluster:
    """Immutable description of a cluster: the numbers of its parts, and their connections.

    Everything is numbered from 0: GPUs node by node, nodes unit by unit, one rail (NIC) of each
    node after the other. Bandwidths are bytes/s in one direction.
    """

    def __init__(self, core: _core.Cluster) -> None:
        self._core = core

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return self._core.gpus

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self._core.nodes

    @property
    def rails(self) -> int:
        """NICs of each node."""
        return self._core.rails

    @property
    def units(self) -> int:
        """Scalable units: nodes below one set of leaf switches; the last may not be full."""
        return self._core.units

    @property
    def domains(self) -> int:
        """NVLink domains: one a node, or one for several (NVL72)."""
        return -(-self.gpus // self.gpus_per_domain)

    @property
    def links(self) -> int:
        """Directed links."""
        return self._core.links

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node; slices, where `slices_per_gpu` is above 1."""
        return self._core.gpus_per_node

    @property
    def slices_per_gpu(self) -> int:
        """1; above 1 in a replay of a log with parts of GPUs: every number of a GPU is that of a
        slice, and slices ``n * slices_per_gpu`` and following are those of one GPU. A job of fewer
        slices has slices of one GPU, any other job all slices of each of its GPUs."""
        return self._core.slices_per_gpu

    def gpu_kind(self, node: int) -> str:
        """Kind of the GPUs of a node; empty in a cluster without kinds.

        Parameters
        ----------
        node : int
            Number of the node.

        Returns
        -------
        str
            The kind, as the nodes of the replay name it.
        """
        return self._core.gpu_kind(_number("node", node, self.nodes))

    @property
    def gpus_per_domain(self) -> int:
        """GPUs of an NVLink domain."""
        return self._core.gpus_per_domain

    @property
    def fabric(self) -> str:
        """Kind of the fabric: ``"fat-tree"``, ``"flat"`` or ``"ring"``."""
        return self._core.fabric

    @property
    def gpu_name(self) -> str:
        """Model of the GPUs, such as ``"H100"``."""
        return self._core.gpu_name

    @property
    def gpu_memory(self) -> float:
        """Bytes of one GPU."""
        return self._core.gpu_memory

    @property
    def nic_bandwidth(self) -> float:
        """Bytes/s of one NIC."""
        return self._core.nic_bandwidth

    @property
    def nvlink_bandwidth(self) -> float:
        """Bytes/s of one GPU's NVLinks together; 0 without."""
        return self._core.nvlink_bandwidth

    def node_of(self, gpu: int) -> int:
        """The node of a GPU.

        Parameters
        ----------
        gpu : int
            Number of the GPU.

        Returns
        -------
        int
            Number of the node.
        """
        return self._core.node_of(_number("gpu", gpu, self.gpus))

    def rail_of(self, gpu: int) -> int:
        """The rail (NIC) that serves a GPU.

        Parameters
        ----------
        gpu : int
            Number of the GPU.

        Returns
        -------
        int
            Number of the rail.
        """
        return self._core.rail_of(_number("gpu", gpu, self.gpus))

    def domain_of(self, gpu: int) -> int:
        """The NVLink domain of a GPU.

        Parameters
        ----------
        gpu : int
            Number of the GPU.

        Returns
        -------
        int
            Number of the domain.
        """
        return self._core.domain_of(_number("gpu", gpu, self.gpus))

    def unit_of(self, node: int) -> int:
        """The scalable unit of a node; 0 outside of fat-trees.

        Parameters
        ----------
        node : int
            Number of the node.

        Returns
        -------
        int
            Number of the unit.
        """
        return self._core.unit_of(_number("node", node, self.nodes))

    def link_name(self, link: int) -> str:
        """Return the name of a link as messages contain it.

        Parameters
        ----------
        link : int
            Number of the link.

        Returns
        -------
        str
            Such as ``"node3/nic5 out"`` or ``"unit0/leaf2 up 7"``.
        """
        return self._core.link_name(_number("link", link, self.links))

    def link_bandwidth(self, link: int) -> float:
        """Bandwidth of a link.

        Parameters
        ----------
        link : int
            Number of the link.

        Returns
        -------
        float
            Bytes/s.
        """
        return self._core.link_bandwidth(_number("link", link, self.links))

    def route(self, source: int, target: int) -> List[int]:
        """The links from one GPU to another.

        Parameters
        ----------
        source, target : int
            Numbers of the GPUs.

        Returns
        -------
        list of int
            Links in order; empty if both are the same GPU.
        """
        gpus = self.gpus
        return self._core.route(_number("source", source, gpus), _number("target", target, gpus))

    def count(self, kind: PartKind) -> int:
        """Return the number of parts of a kind.

        Parameters
        ----------
        kind : str
            Of `orrery.values.PartKind`, such as ``"leaf"``.

        Returns
        -------
        int
            0 where the fabric has none.
        """
        return self._core.count_of(kind)

    def links_of(self, kind: PartKind, index: int) -> List[int]:
        """The links that are gone with a part.

        Parameters
        ----------
        kind : str
            Of `orrery.values.PartKind`.
        index : int
            Number of the part.

        Returns
        -------
        list of int
            Ascending.
        """
        return self._core.links_of(kind, _number(kind, index, self.count(kind)))

    def gpus_of(self, kind: PartKind, index: int) -> List[int]:
        """The GPUs that are gone with a part.

        Parameters
        ----------
        kind : str
            Of `orrery.values.PartKind`.
        index : int
            Number of the part.

        Returns
        -------
        list of int
            A GPU itself, all of a node, else none.
        """
        return self._core.gpus_of(kind, _number(kind, index, self.count(kind)))

    def __repr__(self) -> str:
        return f"<orrery.Cluster: {self.nodes} x {self.gpus_per_node} {self.gpu_name}>"


def _number(what: str, value: int, count: int) -> int:
    number = operator.index(value)
    if not 0 <= number < count:
        raise IndexError(f"{what} is from 0 to {count - 1}, not {number}")
    return number
