"""The cluster as a policy knows it."""

import pytest
from conftest import ROOT

import orrery

BIG = ROOT / "examples" / "llama3-70b-512-h100.yaml"


@pytest.fixture(scope="module")
def cluster():
    class Look(orrery.Policy):
        def observe(self, seen, decisions):
            assert seen.cluster is self.cluster
            decisions.rest()

    look = Look()
    orrery.simulate(BIG, policy=look, run__steps=1)
    return look.cluster


def test_counts_and_places(cluster):
    assert (cluster.gpus, cluster.nodes, cluster.gpus_per_node) == (512, 64, 8)
    assert cluster.domains == 64 and cluster.gpus_per_domain == 8
    assert cluster.fabric == "fat-tree" and cluster.units == 2
    assert cluster.node_of(17) == 2 and cluster.domain_of(17) == 2
    assert cluster.unit_of(0) == 0 and cluster.unit_of(63) == 1
    assert cluster.rail_of(0) != cluster.rail_of(7)
    assert cluster.count("leaf") == cluster.units * cluster.rails
    assert cluster.gpus_of("node", 1) == list(range(8, 16))


def test_links_have_names_and_routes_are_made_of_them(cluster):
    inside, across = cluster.route(0, 1), cluster.route(0, 511)
    assert all("gpu" in cluster.link_name(link) for link in inside)
    assert any("leaf" in cluster.link_name(link) for link in across)
    assert cluster.route(3, 3) == []
    assert cluster.link_bandwidth(across[1]) > 0
    assert set(inside) <= set(cluster.links_of("node", 0))


def test_what_is_not_there_is_said(cluster):
    with pytest.raises(IndexError, match="gpu is from 0 to 511, not 512"):
        cluster.node_of(512)
    with pytest.raises(TypeError, match="integer"):
        cluster.node_of("one")
    with pytest.raises(ValueError, match="no kind of part 'rack'"):
        cluster.count("rack")
