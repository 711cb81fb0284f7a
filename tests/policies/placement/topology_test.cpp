#include "policies/placement/topology.hpp"

#include <gtest/gtest.h>

#include "core/units.hpp"

namespace orrery {
namespace {

/// Units of so many nodes of two GPUs.
class Units {
 public:
  Units(std::uint32_t nodes, std::uint32_t per_unit)
      : cluster_(GpuModel{}, shape(nodes, per_unit), Price{}), world_(cluster_), free_(cluster_) {
    free_.refresh_from(world_.state());
  }
  void take(std::uint32_t node, std::uint32_t gpus = 2) {
    GpuRuns out;
    free_.take_gpus(node, gpus, out);
  }
  /// Nodes of the job's ranks 0, 2, 4, ...
  std::vector<std::uint32_t> place(std::uint32_t gpus) {
    JobSpec job;
    job.gpus = gpus;
    std::vector<std::uint32_t> nodes;
    const auto placed = TopologyPlacer().place_job(job, free_);
    if (!placed) return nodes;
    for (const GpuId gpu : *placed) {
      if (nodes.empty() || nodes.back() != gpu.value / 2) nodes.push_back(gpu.value / 2);
    }
    return nodes;
  }

 private:
  static Cluster::Shape shape(std::uint32_t nodes, std::uint32_t per_unit) {
    Cluster::Shape shape{};
    shape.nodes = nodes;
    shape.gpus_per_node = 2;
    shape.nics_per_node = 1;
    shape.nodes_per_unit = per_unit;
    shape.spines = 1;
    return shape;
  }
  Cluster cluster_;
  World world_;
  FreeGpus free_;
};

using Nodes = std::vector<std::uint32_t>;

TEST(TopologyPlacer, AGangStaysInTheUnitThatItFillsBest) {
  Units units(12, 4);
  units.take(4);  // unit 1 has three idle nodes, the others four
  EXPECT_EQ(units.place(6), (Nodes{5, 6, 7}));
  EXPECT_EQ(units.place(8), (Nodes{0, 1, 2, 3}));
  EXPECT_EQ(units.place(3), (Nodes{8, 9}));  // two nodes, one GPU of the second
}

TEST(TopologyPlacer, OneThatNoUnitHoldsTakesTheEmptiest) {
  Units units(13, 4);  // the last unit has one node
  units.take(0);
  units.take(1);
  EXPECT_EQ(units.place(12), (Nodes{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(units.place(12), Nodes{});
  EXPECT_EQ(units.place(10), (Nodes{2, 3, 10, 11, 12}));
}

TEST(TopologyPlacer, ASmallJobBestFitsANode) {
  Units units(4, 2);
  units.take(3, 1);
  EXPECT_EQ(units.place(1), (Nodes{3}));
  EXPECT_EQ(units.place(2), (Nodes{0}));
}

}  // namespace
}  // namespace orrery
